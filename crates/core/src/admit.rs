//! Whether a pod may run here (section 15).
