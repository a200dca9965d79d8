//! Values of `--pages`.

use byname_lookup::Pages;
use clap::ValueEnum;
use serde::{Serialize, Serializer};

/// Page sizes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PageSize {
    /// 4 KiB.
    #[value(name = "4k")]
    Small,
    /// 2 MiB if the kernel has such pages, otherwise 4 KiB.
    #[value(name = "auto")]
    Large,
    /// 2 MiB, reserved.
    #[value(name = "2m")]
    Reserved2M,
    /// 1 GiB, reserved.
    #[value(name = "1g")]
    Reserved1G,
}

impl PageSize {
    /// Name on the command line.
    pub fn label(self) -> &'static str {
        match self {
            PageSize::Small => "4k",
            PageSize::Large => "auto",
            PageSize::Reserved2M => "2m",
            PageSize::Reserved1G => "1g",
        }
    }
}

impl Serialize for PageSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.label())
    }
}

impl From<PageSize> for Pages {
    fn from(size: PageSize) -> Pages {
        match size {
            PageSize::Small => Pages::Small,
            PageSize::Large => Pages::Large,
            PageSize::Reserved2M => Pages::Reserved2M,
            PageSize::Reserved1G => Pages::Reserved1G,
        }
    }
}
