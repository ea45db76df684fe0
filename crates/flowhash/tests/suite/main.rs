//! Tests of the parser, the labels, the hashes and the flow table through the public interface.

mod common;
mod known_answers;
mod labels;
mod parser;
mod parser_model;
mod spread;
mod table;
mod table_model;
mod tunnels;
