//! Which dead containers and sandboxes are removed (section 18).
