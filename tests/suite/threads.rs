//! The types that callers keep are `Send` and `Sync`.

use freeboard::sched_core::{
    CoDel, CoDelState, Descriptor, Drr, DrrFlow, Fifo, FlowQueues, FlowRecord, LongestFlow,
    LongestQueueDrop, NoAqm, Queue,
};
use freeboard::shaper::{Autorate, KeywordError, Shaped, Shaper};
use freeboard::{
    Buffers, DescriptorQueue, FrameQueue, HashDirectory, Hashed, Heap, Isolated, IsolatedMemory,
    QueueSettings, Segmenter, SettingsError, SmartQueueBuilder, SmartQueueError, StaticFrameQueue,
    StaticFrames, StaticTables,
};

fn is_send_and_sync<T: Send + Sync>() {}

/// Goal: the statements about threads in the documentation hold; compiling this is the test.
#[test]
fn queues_may_move_between_threads() {
    is_send_and_sync::<FrameQueue>();
    is_send_and_sync::<DescriptorQueue>();
    is_send_and_sync::<StaticFrameQueue<'_>>();
    is_send_and_sync::<StaticFrames<16, 1_514, 1>>();
    is_send_and_sync::<SmartQueueBuilder>();
    is_send_and_sync::<Buffers<16, 1_514>>();
    is_send_and_sync::<Segmenter<'_>>();
    is_send_and_sync::<IsolatedMemory<Heap>>();
    is_send_and_sync::<Isolated<Heap>>();
    is_send_and_sync::<StaticTables<16, 1, 8>>();
    type Queues = FlowQueues<
        Drr<Vec<DrrFlow>>,
        (Vec<Queue>, Vec<Descriptor>, Vec<FlowRecord>),
        CoDel<Vec<CoDelState>>,
        LongestQueueDrop<Vec<LongestFlow>>,
    >;
    is_send_and_sync::<Shaped<Queues>>();
    type Directory = HashDirectory<Vec<freeboard::flowhash::TagLine>>;
    type ByHash = Hashed<
        FlowQueues<
            Drr<Vec<DrrFlow>>,
            (Vec<Queue>, Vec<Descriptor>, Vec<FlowRecord>, Directory),
            NoAqm,
            LongestQueueDrop<Vec<LongestFlow>>,
        >,
    >;
    is_send_and_sync::<ByHash>();
    is_send_and_sync::<Fifo<Vec<Descriptor>>>();
    is_send_and_sync::<(Shaper, Autorate, QueueSettings)>();
    is_send_and_sync::<(SettingsError, KeywordError, SmartQueueError)>();
}
