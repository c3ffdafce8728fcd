package dev.starling.distributed.ps;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.spi.PinnedMemory;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/**
 * Gradients on their way from a device to memory of the host, which the device copies to by itself while the backward
 * pass goes on.
 */
final class GradientCopies implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final Update.Assign ASSIGN = new Update.Assign();
    private static final long LINE = 64;
    private static final long POLL_NS = 20_000;

    private final Group group;
    private final Device device;
    private final Arena arena = Arena.ofShared();
    private final PinnedMemory pinned;
    /** By parameter. */
    private final PinnedMemory.Part[] parts;
    private final long[] addresses;
    /** Gradients as f32 on the device. */
    private final Tensor[] dense;
    /** Parameters in the order in which their gradients set off. */
    private final int[] order;
    private int begun;
    private int taken;

    private GradientCopies(Group group, Device device, List<Parameter> parameters) {
        this.group = group;
        this.device = device;
        int n = parameters.size();
        parts = new PinnedMemory.Part[n];
        addresses = new long[n];
        order = new int[n];
        dense = new Tensor[n];
        long bytes = LINE;
        for (int i = 0; i < n; i++) {
            addresses[i] = bytes;
            bytes += (size(parameters.get(i)) + LINE - 1) / LINE * LINE;
        }
        MemorySegment memory = arena.allocate(bytes, 4096);
        pinned = device.backend().pin(memory.address(), bytes);
        for (int i = 0; i < n; i++) {
            parts[i] = pinned.part(addresses[i], size(parameters.get(i)));
            addresses[i] += memory.address();
            Spec spec = new Spec(DType.F32, parameters.get(i).shape(), device);
            dense[i] = Scope.detached(() -> Tensor.allocate(spec));
        }
    }

    private static long size(Parameter parameter) {
        return parameter.shape().count() * Float.BYTES;
    }

    /** Returns copies for parameters that are all on one device that the host does not see, else {@code null}. */
    static GradientCopies of(Group group, List<Parameter> parameters) {
        List<Device> devices = parameters.stream().map(p -> p.value().device()).distinct().toList();
        return devices.size() != 1 || devices.getFirst().backend().hostVisible() ? null
                : new GradientCopies(group, devices.getFirst(), parameters);
    }

    /** Begins to copy a gradient, as f32. */
    void begin(int index, Tensor gradient) {
        if (begun == order.length) {
            throw new DistributedException("gradient " + index + " came twice; after a step that failed, start anew");
        }
        Tensor.apply(ASSIGN, dense[index], gradient);
        parts[index].download(dense[index].address());
        order[begun++] = index;
    }

    /** Tells whether the gradient that set off first of those that were not taken is there. */
    boolean isThere() {
        return taken < begun && parts[order[taken]].isDone();
    }

    /** Takes that gradient, which is there: returns its number. */
    int take() {
        return order[taken++];
    }

    /** Returns where a gradient is, as long as no other is begun for the parameter. */
    long address(int index) {
        return addresses[index];
    }

    /** Waits until one is there; returns false if none is under way, for the next step then. */
    boolean await() {
        if (taken == begun) {
            taken = 0;
            begun = 0;
            return false;
        }
        if (!group.await(this::isThere, group.config().patience())) {
            throw new DistributedException("waited " + group.config().patience() + " for gradient " + order[taken]
                    + " to be copied from " + device);
        }
        return true;
    }

    /** Waits until the host's memory is its own again; returns whether it is. */
    private boolean awaitAll() {
        long begin = System.nanoTime();
        for (PinnedMemory.Part part : parts) {
            while (!part.isDone()) {
                if (System.nanoTime() - begin > group.config().patience().toNanos()) {
                    return false;
                }
                LockSupport.parkNanos(POLL_NS);
            }
        }
        return true;
    }

    @Override
    public void close() {
        try {
            if (!awaitAll()) {
                LOG.log(Level.ERROR, "{0} still copies gradients to the host after {1}: their memory is not given back",
                        device, group.config().patience());
                return;
            }
        } catch (TensorException e) {
            // A device that is broken copies no more.
            LOG.log(Level.WARNING, "{0}", e.getMessage());
        }
        try {
            for (PinnedMemory.Part part : parts) {
                part.close();
            }
            pinned.close();
        } finally {
            for (Tensor each : dense) {
                each.close();
            }
            arena.close();
        }
    }

    /** Requires a gradient to be finite, at {@code address} as f32, before servers see it. */
    static void requireFinite(Optimizer optimizer, int index, long address, int worker) {
        long count = optimizer.parameters().get(index).shape().count();
        try (Scope scope = Scope.open("gradient")) {
            Tensor all = Tensor.wrap(MemorySegment.ofAddress(address).reinterpret(count * Float.BYTES), DType.F32,
                    count);
            if (!all.device().backend().isFinite(all)) {
                throw new TensorException(TensorException.Problem.ANOMALY, "parameter server", List.of(all.spec()),
                        "the gradient of " + optimizer.path(index) + " on worker " + worker
                        + " has an element that is infinite or NaN", "lower the rate, or find the first operation "
                        + "that is not finite with Tape.detectAnomalies; servers have not been sent it");
            }
        }
    }
}
