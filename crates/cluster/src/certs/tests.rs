mod authority;
mod disk;
mod keeping;
