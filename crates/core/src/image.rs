//! Names of images, and when they are pulled (section 8.1).
