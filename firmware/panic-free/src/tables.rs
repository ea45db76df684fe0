//! A static table of each kind. A table of zeros takes memory but no flash: `cargo xtask
//! panic-free` checks that each of these is in a zero-initialised section.

use freeboard::flowhash::TagLine;
use freeboard::sched_core as core_;
use freeboard::{BufferState, CookieSlot, StaticDescriptors, StaticFrames, StaticTables};

macro_rules! tables {
    ($($name:ident: $table:ty,)*) => {
        $(
            #[used]
            static mut $name: [$table; 16] = [<$table>::EMPTY; 16];
        )*
    };
}

tables! {
    AGGREGATES: core_::Aggregate,
    AQM_SETTINGS: core_::AqmSetting,
    BUFFERS: BufferState,
    CHOSEN_AQM_STATES: core_::ChosenAqmState,
    CLASS_STATES: core_::ClassState,
    CODEL_STATES: core_::CoDelState,
    DESCRIPTORS: core_::Descriptor,
    DRR_FLOWS: core_::DrrFlow,
    FLOW_RECORDS: core_::FlowRecord,
    HELD_FLOWS: core_::HeldFlow,
    HELD_HOSTS: core_::HeldHost,
    HOST_CLASSES: core_::HostClasses,
    LENGTH_CLASSES: core_::LengthClass,
    LENGTH_FLOWS: core_::LengthFlow,
    LONGEST_CLASSES: core_::LongestClass,
    LONGEST_FLOWS: core_::LongestFlow,
    PI2_STATES: core_::Pi2State,
    PIE_STATES: core_::PieState,
    PLUS_FLOWS: core_::PlusFlow,
    QFQ_FLOWS: core_::QfqFlow,
    QUEUES: core_::Queue,
    TAG_LINES: TagLine,
    TIN_STATES: core_::TinState,
    WAITING_FLOWS: core_::WaitingFlow,
    WF2Q_FLOWS: core_::Wf2qFlow,
}

#[used]
static mut ASSEMBLED_FRAMES: StaticFrames<8, 1_514, 1> = StaticFrames::new();
#[used]
static mut ASSEMBLED_TABLES: StaticTables<8, 1, 2> = StaticTables::new();
#[used]
static mut ASSEMBLED_DESCRIPTORS: StaticDescriptors<8, 1, 2> = StaticDescriptors::new();
#[used]
static mut COOKIES: [CookieSlot<u32>; 16] = [CookieSlot::EMPTY; 16];
