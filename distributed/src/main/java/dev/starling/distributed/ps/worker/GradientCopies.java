package dev.starling.distributed.ps.worker;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.state.DeviceCopies;
import dev.starling.errors.Durations;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.spi.PinnedMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Copies of gradients from a device to the host's memory. The device copies them asynchronously while the backward pass
 * continues.
 */
public final class GradientCopies implements AutoCloseable {
    private static final Update.Assign ASSIGN = new Update.Assign();
    private static final long LINE = 64;

    private final Membership group;
    private final Device device;
    private final Arena arena = Arena.ofShared();
    private final DeviceCopies copies;
    /** By parameter. */
    private final PinnedMemory.Part[] parts;
    private final long[] addresses;
    /** Gradients as f32 on the device. */
    private final Tensor[] dense;
    /** Parameters in the order in which their copies started. */
    private final int[] order;
    private int started;
    private int consumed;

    private GradientCopies(Membership group, Device device, List<Parameter> parameters) {
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
        try {
            copies = new DeviceCopies(device, memory, group.config().timeout());
        } catch (RuntimeException | Error e) {
            arena.close();
            throw e;
        }
        try {
            for (int i = 0; i < n; i++) {
                parts[i] = copies.part(addresses[i], size(parameters.get(i)));
                addresses[i] += memory.address();
                Spec spec = new Spec(DType.F32, parameters.get(i).shape(), device);
                dense[i] = Scope.detached(() -> Storage.allocate(spec));
            }
        } catch (RuntimeException | Error e) {
            // The device may have no memory for the gradients.
            close();
            throw e;
        }
    }

    private static long size(Parameter parameter) {
        return parameter.shape().count() * Float.BYTES;
    }

    /** Returns copies if all parameters are on one device whose memory the host cannot read, else {@code null}. */
    public static @Nullable GradientCopies of(Membership group, List<Parameter> parameters) {
        List<Device> devices = parameters.stream().map(p -> p.value().device()).distinct().toList();
        return devices.size() != 1 || devices.getFirst().backend().hostVisible() ? null
                : new GradientCopies(group, devices.getFirst(), parameters);
    }

    /** Starts to copy a gradient, converted to f32. */
    public void begin(int index, Tensor gradient) {
        if (started == order.length) {
            throw new DistributedException("gradient " + index + " was copied twice in one step; after a failed step, "
                    + "start the strategy again");
        }
        Tensor.apply(ASSIGN, dense[index], gradient);
        parts[index].download(dense[index].address());
        order[started++] = index;
    }

    /** Returns whether a copy has started in the present step. */
    public boolean hasBegun() {
        return started > 0;
    }

    /** Returns whether the oldest copy that was not consumed is complete. */
    public boolean isReady() {
        return consumed < started && parts[order[consumed]].isDone();
    }

    /** Consumes the oldest copy, which must be complete; returns the index of its parameter. */
    public int next() {
        return order[consumed++];
    }

    /** Returns the address of a gradient's copy; valid until the next copy for the same parameter starts. */
    public long address(int index) {
        return addresses[index];
    }

    /** Waits for the oldest copy; returns false, and prepares for the next step, if all copies were consumed. */
    public boolean await() {
        if (consumed == started) {
            consumed = 0;
            started = 0;
            return false;
        }
        if (!group.await(this::isReady, group.config().timeout())) {
            throw new DistributedException("waited " + Durations.text(group.config().timeout()) + " for gradient "
                    + order[consumed] + " to be copied from " + device);
        }
        return true;
    }

    @Override
    public void close() {
        if (copies.awaitLast()) {
            try {
                copies.close();
            } finally {
                for (Tensor each : dense) {
                    // One is missing where its allocation has failed.
                    if (each != null) {
                        each.close();
                    }
                }
                arena.close();
            }
        }
    }

    /** Checks that a gradient, f32 at {@code address}, is finite before it is sent to servers. */
    public static void requireFinite(Optimizer optimizer, int index, long address, int worker) {
        long count = optimizer.parameters().get(index).shape().count();
        try (Scope scope = Scope.open("gradient")) {
            Tensor all = Tensor.wrap(MemorySegment.ofAddress(address).reinterpret(count * Float.BYTES), DType.F32,
                    count);
            if (!all.device().backend().isFinite(all)) {
                throw new TensorException(TensorException.Problem.ANOMALY, "parameter server", List.of(all.spec()),
                        "the gradient of " + optimizer.path(index) + " on worker " + worker
                        + " has an element that is infinite or NaN; it was not sent to servers", "lower the rate, or "
                        + "find the first operation that is not finite with Tape.detectAnomalies");
            }
        }
    }
}
