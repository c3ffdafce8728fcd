package dev.starling.tensor;

import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.View;
import dev.starling.tensor.profile.OperationEvent;
import dev.starling.tensor.profile.Profiling;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Reference;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * An n-dimensional array: a strided window on device memory that a {@link Scope} owns. Operations return new tensors;
 * views ({@code reshape}, {@code permute}, {@code slice}, ...) share memory. Only ops of {@link Update} change
 * elements.
 *
 * <p>What makes a tensor of numbers or of several tensors is a static method of this class. The operations on a tensor
 * are in the interfaces that it implements: {@link Arithmetic}, {@link Reductions}, {@link Shaping} and
 * {@link Indexing}; {@link HostAccess} reads elements. Neural operations are static methods of {@link Functions},
 * {@link Convolutions}, {@link Pools}, {@link Norms}, {@link Recurrences} and {@link Losses}; the package's page lists
 * all of them. Every operation passes through {@link #apply}. Several threads may read a tensor at the same time,
 * provided that none closes it meanwhile.
 */
public final class Tensor implements Arithmetic, Reductions, Shaping, Indexing, HostAccess, AutoCloseable {
    private static final Tensor[] NONE = {};

    private final Storage storage;
    private final Spec spec;
    private final long[] strides;
    private final long offset;
    private final long id;
    private @Nullable String name;

    Tensor(Storage storage, Spec spec, long[] strides, long offset, ThreadState thread) {
        this.storage = storage;
        this.spec = spec;
        this.strides = strides;
        this.offset = offset;
        this.id = thread.newId();
    }

    // ---- factories ----

    /**
     * Makes a tensor over memory of the caller, without a copy: each side sees what the other writes. The segment must
     * be native (off-heap) and writable, and must stay alive as long as the tensor is used. If its arena was closed, so
     * is the tensor; a kernel that then still runs on another thread, or a mapped file that becomes shorter, ends the
     * process.
     */
    public static Tensor wrap(MemorySegment segment, DType dtype, long... shape) {
        Spec spec = new Spec(dtype, Shape.of(shape), Device.cpu());
        if (!segment.isNative() || segment.isReadOnly() || !segment.scope().isAlive()) {
            throw TensorException.argument("wrap", "the segment must be open, writable native memory",
                    "copy it with Tensor.copyOf");
        }
        if (segment.byteSize() < spec.bytes()) {
            throw new TensorException(TensorException.Problem.SHAPE, "wrap", List.of(spec),
                    "needs " + spec.bytes() + " bytes, the segment has " + segment.byteSize(), "give a larger segment");
        }
        Storage storage = Storage.foreign(spec.device(), segment);
        return new Tensor(storage, spec, spec.shape().sharedStrides(), 0, ThreadState.current());
    }

    /** Makes a tensor on the current device from a copy of the elements in {@code source}, a segment of any kind. */
    public static Tensor copyOf(MemorySegment source, DType dtype, long... shape) {
        Spec spec = new Spec(dtype, Shape.of(shape), Device.current());
        if (source.byteSize() != spec.bytes()) {
            throw new TensorException(TensorException.Problem.SHAPE, "copyOf", List.of(spec),
                    "needs " + spec.bytes() + " bytes, got " + source.byteSize(),
                    "give as many elements as the shape has");
        }
        if (!spec.device().backend().hostVisible()) {
            Tensor host = Device.with(Device.cpu(), () -> copyOf(source, dtype, shape));
            return host.to(spec.device());
        }
        Tensor tensor = Storage.allocate(spec);
        MemorySegment.copy(source, 0, HostMemory.ALL, tensor.address(), spec.bytes());
        return tensor;
    }

    /** Makes an f32 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(float[] elements, long... shape) {
        return of(MemorySegment.ofArray(elements), DType.F32, elements.length, shape);
    }

    /** Makes an f64 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(double[] elements, long... shape) {
        return of(MemorySegment.ofArray(elements), DType.F64, elements.length, shape);
    }

    /** Makes an i64 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(long[] elements, long... shape) {
        return of(MemorySegment.ofArray(elements), DType.I64, elements.length, shape);
    }

    /** Makes an i32 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(int[] elements, long... shape) {
        return of(MemorySegment.ofArray(elements), DType.I32, elements.length, shape);
    }

    /** Makes a bool tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(boolean[] elements, long... shape) {
        byte[] bytes = new byte[elements.length];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (elements[i] ? 1 : 0);
        }
        return of(MemorySegment.ofArray(bytes), DType.BOOL, bytes.length, shape);
    }

    private static Tensor of(MemorySegment elements, DType dtype, long count, long[] shape) {
        return copyOf(elements, dtype, shape.length == 0 ? new long[] {count} : shape);
    }

    /** Makes an f32 scalar. */
    public static Tensor scalar(double value) {
        return full(DType.F32, value);
    }

    /** Makes a tensor on the current device whose elements all equal {@code value}. */
    public static Tensor full(DType dtype, double value, long... shape) {
        return full(new Spec(dtype, Shape.of(shape), Device.current()), value);
    }

    /** Makes a tensor whose elements all equal {@code value}. */
    public static Tensor full(Spec spec, double value) {
        return compute(new Fill.Full(spec, value));
    }

    /** Makes an f32 tensor of zeros on the current device. */
    public static Tensor zeros(long... shape) {
        return full(DType.F32, 0, shape);
    }

    /** Makes an f32 tensor of ones on the current device. */
    public static Tensor ones(long... shape) {
        return full(DType.F32, 1, shape);
    }

    /** Returns {@code start + i·step} for each index {@code i} of a spec of rank 1. */
    public static Tensor arange(Spec spec, double start, double step) {
        return compute(new Fill.Range(spec, start, step));
    }

    /** Returns the i64 numbers from 0 to {@code n - 1}, on the current device. */
    public static Tensor arange(long n) {
        return arange(new Spec(DType.I64, Shape.of(n), Device.current()), 0, 1);
    }

    /**
     * Returns the f32 numbers {@code start, start + step, ..} below {@code stop} (above it if the step is negative), on
     * the current device.
     */
    public static Tensor arange(double start, double stop, double step) {
        if (step == 0 || !Double.isFinite((stop - start) / step)) {
            throw TensorException.argument("arange", "the step must not be 0 and the ends must be finite, got " + start
                    + " to " + stop + " by " + step, "change the step or the ends");
        }
        long n = (long) Math.max(0, Math.ceil((stop - start) / step));
        return arange(new Spec(DType.F32, Shape.of(n), Device.current()), start, step);
    }

    /**
     * Returns {@code n} evenly spaced f32 numbers from {@code first} to {@code last}, both included, on the current
     * device. A single number is {@code first}.
     */
    public static Tensor linspace(double first, double last, long n) {
        if (!Double.isFinite(last - first)) {
            throw TensorException.argument("linspace", "the ends must be finite, got " + first + " and " + last,
                    "give finite numbers");
        }
        if (n < 2) {
            return arange(new Spec(DType.F32, Shape.of(n), Device.current()), first, 0);
        }
        Tensor others = arange(new Spec(DType.F32, Shape.of(n - 1), Device.current()), first, (last - first) / (n - 1));
        // The sum of all steps may miss the last number, by rounding.
        return concat(0, others, full(DType.F32, last, 1));
    }

    /** Returns the f32 identity matrix of {@code n} rows, on the current device. */
    public static Tensor eye(long n) {
        return arange(n).oneHot(n).to(DType.F32);
    }

    /** Joins tensors along {@code axis}, converted to their promoted type. */
    public static Tensor concat(int axis, Tensor... parts) {
        requireSome("concat", parts);
        DType common = parts[0].dtype();
        for (Tensor p : parts) {
            common = DType.promote(common, p.dtype());
        }
        Tensor[] cast = new Tensor[parts.length];
        for (int i = 0; i < parts.length; i++) {
            cast[i] = parts[i].to(common);
        }
        return compute(new Movement.Concat(parts[0].shape().axis(axis)), cast);
    }

    /** Joins tensors of the same shape along a new dimension before {@code axis}. */
    public static Tensor stack(int axis, Tensor... parts) {
        requireSome("stack", parts);
        Tensor[] rows = new Tensor[parts.length];
        for (int i = 0; i < parts.length; i++) {
            rows[i] = parts[i].unsqueeze(axis);
        }
        return concat(axis < 0 ? axis + rows[0].rank() : axis, rows);
    }

    private static void requireSome(String op, Tensor... parts) {
        if (parts.length == 0) {
            throw TensorException.argument(op, "needs at least one tensor, got none", "give one or more");
        }
    }

    /**
     * Broadcasts tensors to their common shape, without a copy.
     *
     * @throws TensorException if there is no such shape
     */
    public static Tensor[] broadcast(Tensor... tensors) {
        Shape common = Shape.scalar();
        for (Tensor t : tensors) {
            Shape next = Shape.broadcast(common, t.shape());
            if (next == null) {
                throw new TensorException(TensorException.Problem.SHAPE, "broadcast", List.of(t.spec()),
                        "must broadcast with " + common, "reshape so that sizes agree or are 1");
            }
            common = next;
        }
        Tensor[] result = new Tensor[tensors.length];
        for (int i = 0; i < result.length; i++) {
            result[i] = tensors[i].expand(common);
        }
        return result;
    }

    // ---- operations ----

    /**
     * Carries out an operation: checks the operands, infers the outputs' specs, runs the operation on the operands'
     * device, and passes it to the {@link Recorder} that is bound to the thread.
     *
     * @throws TensorException if the operands do not fit, live on different devices, or are closed
     */
    public static Tensor[] apply(Op op, Tensor... inputs) {
        Spec[] inferred = Operands.check(op, inputs);
        Tensor[] operands = op instanceof Update update ? Operands.apart(update, inputs) : inputs;
        OperationEvent event = Profiling.isOn() ? OperationEvent.started() : null;
        Tensor[] outputs = switch (op) {
            case View view -> view.views(operands[0], inferred);
            case Transfer transfer -> new Tensor[] {operands[0].transfer(inferred[0])};
            case Update update -> update(update, operands, inferred);
            default -> (inferred.length == 0 ? operands[0].spec : inferred[0]).device().backend()
                    .run(op, operands, inferred);
        };
        if (event != null) {
            event.done(op.name(), outputs.length == 0 ? operands[0].spec : outputs[0].spec);
        }
        done(op, operands, outputs);
        Operands.release(operands, inputs);
        return outputs;
    }

    /**
     * Carries out updates on one device, in order, as one {@link #apply} each would; a GPU runs them together. All are
     * checked before the first is carried out. No update may read a tensor that another one changes.
     *
     * @param operands the operands of each update
     * @param guard {@code []} of a floating type on the same device, or {@code null}. If it is infinite or NaN, no
     *     update changes anything and no error is reported: the caller reads the guard. The host need not wait for it
     * @throws TensorException if operands do not fit, are on different devices, or are closed; nothing is changed then
     */
    public static void applyAll(Update[] ops, Tensor[][] operands, @Nullable Tensor guard) {
        Operands.check(ops, operands, guard);
        Tensor[][] apart = Operands.apart(ops, operands);
        carryOut(ops, apart, guard);
        for (int i = 0; i < ops.length; i++) {
            Operands.release(apart[i], operands[i]);
        }
    }

    private static void carryOut(Update[] ops, Tensor[][] operands, @Nullable Tensor guard) {
        if (ops.length == 0) {
            return;
        }
        if (guard != null) {
            guard.notifyRead();
        }
        OperationEvent event = Profiling.isOn() ? OperationEvent.started() : null;
        try {
            operands[0][0].device().backend().updateAll(ops, operands, guard);
        } finally {
            for (int i = 0; i < ops.length; i++) {
                changed(ops[i], operands[i]);
            }
        }
        if (event != null) {
            event.done(ops.length + " × " + ops[0].name(), operands[0][0].spec);
        }
        for (int i = 0; i < ops.length; i++) {
            done(ops[i], operands[i], NONE);
        }
        Reference.reachabilityFence(guard);
    }

    /** Counts the change even if it fails: a part of the elements may have changed then. */
    private static Tensor[] update(Update op, Tensor[] inputs, Spec[] inferred) {
        try {
            return (inferred.length == 0 ? inputs[0].spec : inferred[0]).device().backend().run(op, inputs, inferred);
        } finally {
            changed(op, inputs);
        }
    }

    private static void changed(Update op, Tensor[] inputs) {
        for (int i = 0; i < inputs.length; i++) {
            inputs[i].storage.version += op.changes(i) ? 1 : 0;
        }
    }

    private static void done(Op op, Tensor[] inputs, Tensor[] outputs) {
        ThreadState thread = ThreadState.current();
        thread.recorder.record(op, inputs, outputs);
        thread.interceptor.onOperation(op, inputs, outputs);
        Reference.reachabilityFence(inputs);
    }

    /**
     * Carries out an operation with one output; see {@link #apply}.
     *
     * @throws TensorException also for an {@link Update}, which has none
     */
    public static Tensor compute(Op op, Tensor... inputs) {
        if (op instanceof Update) {
            throw TensorException.argument(op.name(), "changes its operand and has no result", "call Tensor.apply");
        }
        return apply(op, inputs)[0];
    }

    /** Returns this operand of {@code op}, after a check that it is open. */
    Tensor open(Op op) {
        if (storage.isClosed()) {
            throw closed(op.name());
        }
        return this;
    }

    private TensorException closed(String op) {
        return new TensorException(TensorException.Problem.CLOSED, op, List.of(spec),
                "tensor " + (name == null ? "#" + id : name) + " was closed by " + storage.closedBy,
                storage.remedyOfClosed());
    }

    // ---- properties ----

    /** Returns type, shape and device. */
    public Spec spec() {
        return spec;
    }

    /** Returns the sizes. */
    public Shape shape() {
        return spec.shape();
    }

    /** Returns the element type. */
    public DType dtype() {
        return spec.dtype();
    }

    /** Returns the device that holds the elements. */
    public Device device() {
        return spec.device();
    }

    /** Returns the number of dimensions. */
    public int rank() {
        return spec.shape().rank();
    }

    /** Returns the size of dimension {@code axis}; negative counts from the end. */
    public long size(int axis) {
        return spec.shape().dim(axis);
    }

    /** Returns the number of elements. */
    public long count() {
        return spec.shape().count();
    }

    /** Returns the stride of dimension {@code axis} in elements; negative counts from the end. */
    public long stride(int axis) {
        return strides[spec.shape().axis(axis)];
    }

    /** Returns a copy of the strides in elements. */
    public long[] strides() {
        return strides.clone();
    }

    /** Returns the strides in elements without a copy, for backends. The array must not be changed. */
    public long[] sharedStrides() {
        return strides;
    }

    /** Returns the position of the first element in the underlying memory, in elements. */
    public long offset() {
        return offset;
    }

    /** Returns a number that is unique among the tensors of this process. */
    public long id() {
        return id;
    }

    /**
     * Returns the address of the first element, for backends and zero-copy exchange; valid while the tensor is open.
     * Code that writes to it then calls {@link Storage#changed}: until the memory has another version, kernels use
     * packed copies of the elements, and a tape does not detect that values which it needs have changed.
     */
    public long address() {
        if (storage.isClosed()) {
            throw closed("address");
        }
        return storage.address() + offset * spec.dtype().bytes();
    }

    /** Returns whether the elements are in row-major order without gaps. */
    public boolean isContiguous() {
        long[] dense = spec.shape().sharedStrides();
        if (strides == dense) {
            return true;
        }
        for (int i = 0; i < strides.length; i++) {
            if (strides[i] != dense[i] && spec.shape().dim(i) > 1) {
                return spec.shape().count() == 0;
            }
        }
        return true;
    }

    /** Returns whether this tensor's memory was freed. */
    public boolean isClosed() {
        return storage.isClosed();
    }

    /** Returns whether two tensors share memory. */
    public boolean sharesMemoryWith(Tensor other) {
        return storage == other.storage;
    }

    /** Sets the name that error messages show, and returns this tensor. */
    public Tensor named(String label) {
        name = label;
        return this;
    }

    /** Returns the name set with {@link #named}, or {@code null}. */
    public @Nullable String name() {
        return name;
    }

    /**
     * Returns the memory that this tensor shares with its views. Meant for backends and for code that passes tensors
     * on, as a tape does.
     */
    public Storage storage() {
        return storage;
    }

    /** Frees the memory before its scope does, for this tensor and all its views. */
    @Override
    public void close() {
        storage.close(Storage.CLOSE);
    }

    // ---- host access ----

    /** Returns this tensor on another device, or this tensor itself if it is already there. Gradients flow back. */
    public Tensor to(Device target) {
        return target == spec.device() ? this : compute(new Transfer(target), this);
    }

    private Tensor transfer(Spec target) {
        Tensor source = contiguous();
        Tensor result = Storage.allocate(target);
        if (!target.device().backend().hostVisible() && !device().backend().hostVisible()) {
            return source.to(Device.cpu()).transfer(target);
        }
        if (target.device().backend().hostVisible()) {
            device().backend().download(source.address(), result.address(), target.bytes());
        } else {
            target.device().backend().upload(source.address(), result.address(), target.bytes());
        }
        Reference.reachabilityFence(source);
        return result;
    }

    /** Returns this tensor in row-major order in host memory: itself if it is already so. */
    Tensor onHost() {
        address();
        notifyRead();
        Tensor host = device().backend().hostVisible() ? this : to(Device.cpu());
        return host.contiguous();
    }

    void notifyRead() {
        ThreadState.current().interceptor.onRead(this);
    }

    /** Prints type, shape and elements, eliding the middle of long dimensions. */
    @Override
    public String toString() {
        return storage.isClosed() ? "closed " + spec : Printer.print(this);
    }
}
