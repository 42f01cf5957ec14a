//! The simulated GPU: state shared by every process that names the same simulation.
