//! `--pages`.

use byname_lookup::Pages;
use clap::ValueEnum;

/// The pages of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PageSize {
    /// 4 KiB.
    #[value(name = "4k")]
    Small,
    /// 2 MiB where the kernel has them to give.
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
    /// As on the command line.
    pub fn label(self) -> &'static str {
        match self {
            PageSize::Small => "4k",
            PageSize::Large => "auto",
            PageSize::Reserved2M => "2m",
            PageSize::Reserved1G => "1g",
        }
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
