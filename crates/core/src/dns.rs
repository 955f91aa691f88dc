//! What goes into a pod's resolv.conf (section 10.3).
