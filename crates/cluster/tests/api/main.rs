//! The API client against a server that does what a test tells it to.

mod client;
mod credentials;
mod fake;
mod pki;
mod reflector;
mod source;
