//! `Debug` without table contents, for types whose tables have thousands of entries.

/// Implements `Debug` with the named fields and without tables, whatever the type parameters are.
macro_rules! short_debug {
    ($name:ident<$($parameter:ident $(: $bound:path)?),*> { $($field:ident),* }) => {
        /// Omits the tables.
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
