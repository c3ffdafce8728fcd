package dev.starling.distributed.gossip;

import dev.starling.tensor.Tensor;
import dev.starling.transport.Endpoint;
import dev.starling.transport.MemoryRegion;
import dev.starling.transport.RemoteRegion;

/** Memory from which weights travel to the slots of peers that this worker does not map: one put at a time. */
final class Staging implements AutoCloseable {
    private final MemoryRegion region;
    private final Tensor[] weights;
    private volatile boolean busy;

    Staging(MemoryRegion region, WeightLayout layout) {
        this.region = region;
        weights = layout.over(region.memory());
    }

    boolean isBusy() {
        return busy;
    }

    Tensor[] weights() {
        return weights;
    }

    /** Puts the weights into a slot; returns whether the link had room. Under the group's lock. */
    boolean put(Endpoint endpoint, RemoteRegion slot, Runnable whenArrived) {
        busy = true;
        int code = endpoint.put(region, 0, slot, 0, region.bytes(), arrived -> {
            busy = false;
            if (arrived) {
                whenArrived.run();
            }
        });
        busy &= code == Endpoint.OK;
        return code == Endpoint.OK;
    }

    @Override
    public void close() {
        for (Tensor each : weights) {
            each.close();
        }
        region.close();
    }
}
