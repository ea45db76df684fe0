//! `Debug` of what holds tables: short, since a table has thousands of entries.

/// Prints these fields of a type, and none of its tables. Whatever its parameters are, it is
/// `Debug`.
macro_rules! short_debug {
    ($name:ident<$($parameter:ident $(: $bound:path)?),*> { $($field:ident),* }) => {
        /// Without the tables.
        impl<$($parameter $(: $bound)?),*> core::fmt::Debug for $name<$($parameter),*> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let mut debug = f.debug_struct(stringify!($name));
                $(debug.field(stringify!($field), &self.$field);)*
                debug.finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use short_debug;
