package dev.starling.tensor;

import dev.starling.tensor.host.HostMemory;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Reference;
import java.util.Arrays;
import java.util.List;

/** How the host reads elements. All methods wait until the device has computed them. */
public sealed interface HostAccess permits Tensor {
    private Tensor self() {
        return (Tensor) this;
    }

    /**
     * Returns the elements' memory without a copy; valid while the tensor is open. The caller may write to it at any
     * time, so kernels keep no packed copies of this memory's elements from now on; use {@link #readOnlySegment} to
     * read.
     *
     * @throws TensorException if the tensor is not in host memory or not contiguous
     */
    default MemorySegment segment() {
        MemorySegment elements = elements();
        self().storage().expose();
        return elements;
    }

    /**
     * Returns the elements' memory without a copy, to read; valid while the tensor is open.
     *
     * @throws TensorException if the tensor is not in host memory or not contiguous
     */
    default MemorySegment readOnlySegment() {
        return elements().asReadOnly();
    }

    private MemorySegment elements() {
        Tensor self = self();
        self.notifyRead();
        if (!self.isContiguous() || !self.device().backend().hostVisible()) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "segment", List.of(self.spec()),
                    "the tensor must be contiguous and in host memory", "call to(Device.cpu()).contiguous() first");
        }
        return self.storage().segment(self.address(), self.spec().bytes());
    }

    /** Returns the only element as a double. */
    default double item() {
        Tensor host = only();
        double value = HostMemory.getDouble(host.dtype(), host.address());
        Reference.reachabilityFence(host);
        return value;
    }

    /** Returns the only element as a long. */
    default long itemLong() {
        Tensor host = only();
        long value = HostMemory.getLong(host.dtype(), host.address());
        Reference.reachabilityFence(host);
        return value;
    }

    private Tensor only() {
        if (self().count() != 1) {
            throw new TensorException(TensorException.Problem.SHAPE, "item", List.of(self().spec()),
                    "needs exactly one element", "index or reduce first");
        }
        return self().onHost();
    }

    /** Returns the elements in row-major order, converted to float. */
    default float[] toFloats() {
        float[] out = new float[HostMemory.arrayLength("array", self().count(), Float.BYTES)];
        Tensor host = self().onHost();
        DType dtype = host.dtype();
        if (dtype == DType.F32) {
            MemorySegment.copy(HostMemory.ALL, ValueLayout.JAVA_FLOAT_UNALIGNED, host.address(), out, 0, out.length);
        } else {
            for (int i = 0; i < out.length; i++) {
                long at = host.address() + (long) i * dtype.bytes();
                // The largest integers would be rounded twice on the way through a double.
                out[i] = dtype == DType.I64 ? (float) HostMemory.getLong(dtype, at)
                        : (float) HostMemory.getDouble(dtype, at);
            }
        }
        Reference.reachabilityFence(host);
        return out;
    }

    /** Returns the elements in row-major order, converted to double. */
    default double[] toDoubles() {
        double[] out = new double[HostMemory.arrayLength("array", self().count(), Double.BYTES)];
        Tensor host = self().onHost();
        Arrays.setAll(out, i -> HostMemory.getDouble(host.dtype(), host.address() + (long) i * host.dtype().bytes()));
        Reference.reachabilityFence(host);
        return out;
    }

    /** Returns the elements in row-major order, converted to long. */
    default long[] toLongs() {
        long[] out = new long[HostMemory.arrayLength("array", self().count(), Long.BYTES)];
        Tensor host = self().onHost();
        Arrays.setAll(out, i -> HostMemory.getLong(host.dtype(), host.address() + (long) i * host.dtype().bytes()));
        Reference.reachabilityFence(host);
        return out;
    }
}
