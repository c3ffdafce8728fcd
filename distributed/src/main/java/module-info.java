import org.jspecify.annotations.NullMarked;

/** Groups of processes, collectives, strategies of distributed training, and a launcher. */
@NullMarked
module dev.starling.distributed {
    requires static transitive org.jspecify;
    requires transitive dev.starling.nn;
    requires transitive dev.starling.transport;
    requires com.lmax.disruptor;
    requires chronicle.map;
    requires java.management;
    requires jdk.unsupported;

    exports dev.starling.distributed;
    exports dev.starling.distributed.bucket;
    exports dev.starling.distributed.codec;
    exports dev.starling.distributed.conformance;
    exports dev.starling.distributed.coordinator;
    exports dev.starling.distributed.epoch;
    exports dev.starling.distributed.ring;
    exports dev.starling.distributed.gossip;
    exports dev.starling.distributed.launch;
    exports dev.starling.distributed.ps;
    exports dev.starling.distributed.ps.config;

    provides dev.starling.distributed.GroupProvider with dev.starling.distributed.group.MembershipProvider;

    provides dev.starling.distributed.group.SuccessorProvider
            with dev.starling.distributed.coordinator.SuccessorOpener;

    uses dev.starling.distributed.GroupProvider;
    uses dev.starling.distributed.group.SuccessorProvider;
}
