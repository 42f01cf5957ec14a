//! The host side: runs programs under a quota and explains what is enforced.

fn main() {}
