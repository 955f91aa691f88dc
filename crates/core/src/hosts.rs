//! The pod's hosts file (section 10.2).
