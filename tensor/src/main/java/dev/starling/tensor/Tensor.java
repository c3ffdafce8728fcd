package dev.starling.tensor;

import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.View;
import dev.starling.tensor.profile.OperationEvent;
import dev.starling.tensor.spi.Block;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Reference;
import java.util.Arrays;
import java.util.List;

/**
 * An n-dimensional array: a strided window on device memory that a {@link Scope} owns. Operations return new tensors;
 * views ({@code reshape}, {@code permute}, {@code slice}, ...) share memory. Only ops of {@link Update} change
 * elements.
 *
 * <p>The operations on a tensor are in the interfaces that it implements: {@link Arithmetic}, {@link Reductions},
 * {@link Shaping} and {@link Indexing}. Neural operations are static methods of {@link Functions},
 * {@link Convolutions}, {@link Pools}, {@link Norms} and {@link Losses}. Every operation passes through {@link #apply}.
 * Several threads may read a tensor at the same time, provided that none closes it meanwhile.
 */
public final class Tensor implements Arithmetic, Reductions, Shaping, Indexing, AutoCloseable {
    private static final Tensor[] NONE = {};

    private final Storage storage;
    private final Spec spec;
    private final long[] strides;
    private final long offset;
    private final long id;
    private String name;

    Tensor(Storage storage, Spec spec, long[] strides, long offset, ThreadState thread) {
        this.storage = storage;
        this.spec = spec;
        this.strides = strides;
        this.offset = offset;
        this.id = thread.nextId++;
    }

    // ---- factories ----

    /** Allocates a row-major tensor with undefined content in the current scope. For backends. */
    public static Tensor allocate(Spec spec) {
        return allocate(spec, spec.shape().contiguousStrides());
    }

    /** Allocates a tensor with undefined content and these dense strides in elements, checked. For backends. */
    public static Tensor allocate(Spec spec, long[] strides) {
        if (strides != spec.shape().contiguousStrides()) {
            Storage.require("allocate", spec, strides, 0, spec.bytes());
        }
        ThreadState thread = ThreadState.current();
        Tensor lent = thread.interceptor == null ? null : thread.interceptor.allocate(spec, strides);
        return lent != null ? lent
                : new Tensor(Storage.allocate(spec.device(), spec.bytes(), thread), spec, strides, 0, thread);
    }

    /**
     * Makes a tensor over memory of the caller, without a copy: each side sees what the other writes. The segment must
     * be native (off-heap) and writable, and must stay alive as long as the tensor is used.
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
        Storage storage = Storage.foreign(spec.device(), new Block(segment.address(), segment.byteSize()), segment);
        return new Tensor(storage, spec, spec.shape().contiguousStrides(), 0, ThreadState.current());
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
        Tensor tensor = allocate(spec);
        MemorySegment.copy(source, 0, HostMemory.ALL, tensor.address(), spec.bytes());
        return tensor;
    }

    /** Makes an f32 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(float[] elements, long... shape) {
        return copyOf(MemorySegment.ofArray(elements), DType.F32, shape.length == 0
                ? new long[] {elements.length} : shape);
    }

    /** Makes an f64 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(double[] elements, long... shape) {
        return copyOf(MemorySegment.ofArray(elements), DType.F64, shape.length == 0
                ? new long[] {elements.length} : shape);
    }

    /** Makes an i64 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(long[] elements, long... shape) {
        return copyOf(MemorySegment.ofArray(elements), DType.I64, shape.length == 0
                ? new long[] {elements.length} : shape);
    }

    /** Makes an i32 tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(int[] elements, long... shape) {
        return copyOf(MemorySegment.ofArray(elements), DType.I32, shape.length == 0
                ? new long[] {elements.length} : shape);
    }

    /** Makes a bool tensor from its elements in row-major order; no shape means one dimension. */
    public static Tensor of(boolean[] elements, long... shape) {
        byte[] bytes = new byte[elements.length];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (elements[i] ? 1 : 0);
        }
        return copyOf(MemorySegment.ofArray(bytes), DType.BOOL, shape.length == 0 ? new long[] {bytes.length} : shape);
    }

    /** Makes an f32 scalar. */
    public static Tensor scalar(double value) {
        return full(DType.F32, value);
    }

    /** Makes a tensor on the current device whose elements all equal {@code value}. */
    public static Tensor full(DType dtype, double value, long... shape) {
        return Creation.full(new Spec(dtype, Shape.of(shape), Device.current()), value);
    }

    /** Makes an f32 tensor of zeros on the current device. */
    public static Tensor zeros(long... shape) {
        return full(DType.F32, 0, shape);
    }

    /** Makes an f32 tensor of ones on the current device. */
    public static Tensor ones(long... shape) {
        return full(DType.F32, 1, shape);
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
        OperationEvent event = OperationEvent.isOn() ? OperationEvent.started() : null;
        Tensor[] outputs = switch (op) {
            case View view -> view.views(inputs[0]);
            case Transfer transfer -> new Tensor[] {inputs[0].transfer(inferred[0])};
            default -> (inferred.length == 0 ? inputs[0].spec : inferred[0]).device().backend()
                    .run(op, inputs, inferred);
        };
        if (event != null) {
            event.done(op.name(), outputs.length == 0 ? inputs[0].spec : outputs[0].spec);
        }
        done(op, inputs, outputs);
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
    public static void applyAll(Update[] ops, Tensor[][] operands, Tensor guard) {
        Operands.check(ops, operands, guard);
        if (ops.length == 0) {
            return;
        }
        if (guard != null) {
            guard.notifyRead();
        }
        OperationEvent event = OperationEvent.isOn() ? OperationEvent.started() : null;
        operands[0][0].device().backend().updateAll(ops, operands, guard);
        if (event != null) {
            event.done(ops.length + " × " + ops[0].name(), operands[0][0].spec);
        }
        for (int i = 0; i < ops.length; i++) {
            done(ops[i], operands[i], NONE);
        }
        Reference.reachabilityFence(guard);
    }

    private static void done(Op op, Tensor[] inputs, Tensor[] outputs) {
        if (op instanceof Update update) {
            for (int i = 0; i < inputs.length; i++) {
                inputs[i].storage.version += update.changes(i) ? 1 : 0;
            }
        }
        if (Recorder.CURRENT.isBound()) {
            Recorder.CURRENT.get().record(op, inputs, outputs);
        }
        ThreadState thread = ThreadState.current();
        if (thread.interceptor != null) {
            thread.interceptor.onOperation(op, inputs, outputs);
        }
        Reference.reachabilityFence(inputs);
    }

    /** Carries out an operation with one output; see {@link #apply}. */
    public static Tensor compute(Op op, Tensor... inputs) {
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
                "move it out with Scope.keep before its scope closes");
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

    /** Returns the strides in elements. The array is shared and must not be changed. */
    public long[] strides() {
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
     */
    public long address() {
        if (storage.isClosed()) {
            throw closed("address");
        }
        return storage.address() + offset * spec.dtype().bytes();
    }

    /** Returns whether the elements are in row-major order without gaps. */
    public boolean isContiguous() {
        long[] dense = spec.shape().contiguousStrides();
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
    public String name() {
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
        storage.close("close()");
    }

    // ---- host access ----

    /** Returns this tensor on another device, or this tensor itself if it is already there. Gradients flow back. */
    public Tensor to(Device target) {
        return target == spec.device() ? this : compute(new Transfer(target), this);
    }

    private Tensor transfer(Spec target) {
        Tensor source = contiguous();
        Tensor result = allocate(target);
        if (!target.device().backend().hostVisible() && !device().backend().hostVisible()) {
            return source.to(Device.cpu()).transfer(target);
        }
        if (target.device().backend().hostVisible()) {
            device().backend().download(source.address(), result.address(), target.bytes());
        } else {
            target.device().backend().upload(source.address(), result.address(), target.bytes());
        }
        return result;
    }

    /** Returns this tensor in row-major order in host memory: itself if it is already so. */
    Tensor onHost() {
        address();
        notifyRead();
        Tensor host = device().backend().hostVisible() ? this : to(Device.cpu());
        return host.contiguous();
    }

    /**
     * Returns the elements' memory without a copy; valid while the tensor is open.
     *
     * @throws TensorException if the tensor is not in host memory or not contiguous
     */
    public MemorySegment segment() {
        notifyRead();
        if (!isContiguous() || !device().backend().hostVisible()) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "segment", List.of(spec),
                    "the tensor must be contiguous and in host memory", "call to(Device.cpu()).contiguous() first");
        }
        return HostMemory.ALL.asSlice(address(), spec.bytes());
    }

    private void notifyRead() {
        ThreadState thread = ThreadState.current();
        if (thread.interceptor != null) {
            thread.interceptor.onRead(this);
        }
    }

    /** Returns the only element as a double. */
    public double item() {
        if (count() != 1) {
            throw new TensorException(TensorException.Problem.SHAPE, "item", List.of(spec),
                    "needs exactly one element", "index or reduce first");
        }
        Tensor host = onHost();
        return HostMemory.getDouble(dtype(), host.address());
    }

    /** Returns the only element as a long. */
    public long itemLong() {
        item();
        return HostMemory.getLong(dtype(), onHost().address());
    }

    /** Returns the elements in row-major order, converted to float. */
    public float[] toFloats() {
        float[] out = new float[Creation.arrayLength("array", count(), Float.BYTES)];
        Tensor host = onHost();
        if (dtype() == DType.F32) {
            MemorySegment.copy(HostMemory.ALL, ValueLayout.JAVA_FLOAT_UNALIGNED, host.address(), out, 0, out.length);
        } else {
            for (int i = 0; i < out.length; i++) {
                out[i] = (float) HostMemory.getDouble(dtype(), host.address() + (long) i * dtype().bytes());
            }
        }
        return out;
    }

    /** Returns the elements in row-major order, converted to double. */
    public double[] toDoubles() {
        double[] out = new double[Creation.arrayLength("array", count(), Double.BYTES)];
        Tensor host = onHost();
        Arrays.setAll(out, i -> HostMemory.getDouble(dtype(), host.address() + (long) i * dtype().bytes()));
        return out;
    }

    /** Returns the elements in row-major order, converted to long. */
    public long[] toLongs() {
        long[] out = new long[Creation.arrayLength("array", count(), Long.BYTES)];
        Tensor host = onHost();
        Arrays.setAll(out, i -> HostMemory.getLong(dtype(), host.address() + (long) i * dtype().bytes()));
        return out;
    }

    /** Prints type, shape and elements, eliding the middle of long dimensions. */
    @Override
    public String toString() {
        return storage.isClosed() ? "closed " + spec : Printer.print(this);
    }
}
