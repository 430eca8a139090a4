//! Counts of histories: numbers that are added up over many histories.

/// Defines a set of counts.
macro_rules! counts {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// Adds the counts of another history.
            pub fn add(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

pub(crate) use counts;
