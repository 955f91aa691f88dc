mod authority;
mod bootstrap;
mod disk;
mod keeping;
