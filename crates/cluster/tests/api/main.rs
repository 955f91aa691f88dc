//! The API client against a scripted server.
#![expect(clippy::unwrap_used, reason = "a test whose server cannot be set up has failed")]

mod addresses;
mod client;
mod credentials;
mod fake;
mod https;
mod pki;
mod pods;
mod proxy;
mod reflector;
mod reviews;
mod source;
