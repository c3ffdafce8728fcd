package dev.starling.tensor.reference;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Backend;

/** The executable definition of every operation, on host memory; see {@link ReferenceKernels}. */
final class ReferenceBackend implements Backend {
    @Override
    public Allocator memory() {
        return HostAllocator.shared();
    }

    @Override
    public boolean hostVisible() {
        return true;
    }

    @Override
    public Tensor[] run(Op op, Tensor[] inputs, Spec[] outputs) {
        return ReferenceKernels.run(op, inputs, outputs);
    }

    @Override
    public void upload(long hostAddress, long deviceAddress, long bytes) {
        HostMemory.ALL.asSlice(deviceAddress, bytes).copyFrom(HostMemory.ALL.asSlice(hostAddress, bytes));
    }

    @Override
    public void download(long deviceAddress, long hostAddress, long bytes) {
        upload(deviceAddress, hostAddress, bytes);
    }
}
