mod cubin;
mod fatbin;
pub(crate) mod function;
pub(crate) mod image;
mod lexer;
mod lz4;
mod ptx;
