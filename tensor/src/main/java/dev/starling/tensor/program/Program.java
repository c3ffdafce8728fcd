package dev.starling.tensor.program;

import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.profile.OperationEvent;
import dev.starling.tensor.profile.Profiling;
import dev.starling.tensor.spi.Recording;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The recorded operations of a piece of work, which can be replayed for other inputs without the code that issued them.
 * Operations whose results are unused are left out, those on constants alone run once, chains of elementwise operations
 * are fused into one kernel, and memory is planned: runs after the first allocate nothing. A device that supports it
 * launches the whole program with one command (a CUDA graph). Results are those of the work itself: bit for bit on the
 * CPU; up to one rounding on a device that fuses the product and the sum of a chain.
 *
 * <pre>{@code
 * var captured = Program.capture(null, in -> new Tensor[] {model.forward(in[0])}, x);
 * try (Program program = captured.program()) {
 *     Tensor y = program.run(another)[0];
 * }
 * }</pre>
 *
 * <p>Only the inputs and random numbers vary from run to run. Tensors that existed before the capture are read in
 * place, so a run sees a parameter's current elements; numbers and branches of the host are part of the program. Side
 * effects of the work other than operations happen once, at capture. Confined to one thread at a time.
 */
public final class Program implements AutoCloseable {
    private final List<Node> nodes;
    private final Listing listing;
    private final List<Capture.Mark> marks;
    private final Tensor[] inputs;
    private final int[] outputs;
    private final Tensor[] results;
    /** The tensors that existed before the capture; the program is current while none of them is closed. */
    private final Tensor[] external;
    private final List<Tensor> owned;
    private final Tensor[] values;
    private final @Nullable Generator generator;
    private final long blocks;
    private final Device device;
    /** Whether the device may launch the whole program with one command; false once it has refused. */
    private boolean recordable;
    private final Arena arena = new Arena();
    private final Replay replay;
    private final Update[] assigns;
    /** Pairs of a program input and the tensor to copy into it; {@link #pending} of them are valid. */
    private final Tensor[][] pairs;
    /** By input: a copy of an output of this program that was the input, or {@code null}. */
    private final @Nullable Tensor[] preserved;
    /** By input: another such copy, for a run in which the other one is still to be read, or {@code null}. */
    private final @Nullable Tensor[] spare;
    /** By input: what it is being bound to. */
    private final Tensor[] near;
    private int pending;
    /** The tensors that a recording changes in place. */
    private final Tensor[] changed;
    private boolean planned;
    /** Whether a run, or what {@link #close} frees, has the program's memory. */
    private final AtomicBoolean busy = new AtomicBoolean();
    private volatile boolean closed;
    private @Nullable Recording recording;

    /** The work to capture: operations on tensors. */
    @FunctionalInterface
    public interface Work {
        /** Computes results, some of which may be {@code null}, from inputs. */
        Tensor[] run(Tensor[] inputs);
    }

    /** Receives the marks that {@link #mark} has set. */
    @FunctionalInterface
    public interface MarkListener {
        /** Called after the operations before the mark have been carried out or queued; may throw to end the run. */
        void onMark(int label, Tensor[] outputs);
    }

    /**
     * A program, and the outputs of the run in which it was captured.
     *
     * @param program for further runs; the caller closes it
     * @param outputs in the current scope, as the work made them
     */
    public record Captured(Program program, Tensor[] outputs) { }

    private Program(Capture capture, Tensor[] specimens, int[] outputs, @Nullable Generator generator) {
        listing = new Listing(capture);
        Flow flow = new Flow(capture, outputs);
        nodes = flow.nodes;
        marks = flow.marks;
        inputs = new Tensor[specimens.length];
        assigns = new Update[inputs.length];
        Arrays.fill(assigns, new Update.Assign());
        pairs = new Tensor[inputs.length][2];
        preserved = new Tensor[inputs.length];
        spare = new Tensor[inputs.length];
        near = new Tensor[inputs.length];
        this.outputs = outputs;
        this.generator = generator;
        results = new Tensor[outputs.length];
        owned = capture.owned;
        external = capture.given.stream().filter(t -> t != null && !owned.contains(t)).toArray(Tensor[]::new);
        values = capture.given.toArray(Tensor[]::new);
        blocks = capture.blocks();
        device = nodes.isEmpty() ? specimens[0].device() : nodes.getLast().device;
        boolean one = true;
        for (Node node : nodes) {
            one &= node.isIdle() || node.device == device && !(node.op instanceof Transfer);
        }
        changed = nodes.stream().flatMapToInt(node -> Arrays.stream(node.changed()))
                .mapToObj(value -> values[capture.group.get(value)]).filter(Objects::nonNull).distinct()
                .toArray(Tensor[]::new);
        recordable = one && !device.backend().hostVisible();
        for (int i = 0; i < inputs.length; i++) {
            Tensor like = specimens[i];
            long[] strides = like.shape().sharedStrides();
            inputs[i] = like.device().backend().hostVisible() ? like.storage().lend(like.spec(), strides)
                    : arena.acquire(like.device(), like.spec().bytes()).lend(like.spec(), strides);
            values[i] = inputs[i];
        }
        int[] group = capture.group.stream().mapToInt(g -> g).toArray();
        replay = new Replay(flow, group, values, arena, capture.start());
    }

    /**
     * Runs the work and captures its operations.
     *
     * @param generator the generator from which the work draws random numbers, or {@code null} if it draws none; each
     *     run advances it as the work would
     * @param work must use the input tensors that it receives, and must not read elements on the host
     * @param inputs at least one: the tensors that vary from run to run
     * @throws TensorException if the work cannot be captured; the message states why
     */
    public static Captured capture(@Nullable Generator generator, Work work, Tensor... inputs) {
        if (inputs.length == 0 || Interceptor.current() != Interceptor.NONE) {
            throw TensorException.argument("capture", inputs.length == 0 ? "needs at least one input"
                    : "cannot capture while another program is captured or run", inputs.length == 0
                    ? "pass what varies from run to run" : "capture before or after the other program");
        }
        requireNoRecorder("capture");
        Tensor[] mine = new Tensor[inputs.length];
        for (int i = 0; i < mine.length; i++) {
            mine[i] = inputs[i].contiguous();
        }
        for (int i = 0; i < mine.length; i++) {
            mine[i] = mine[i].storage().view(mine[i].spec(), mine[i].shape().sharedStrides(), mine[i].offset());
        }
        Capture capture = new Capture(generator, mine);
        Tensor[] results = Interceptor.with(capture, () -> work.run(mine));
        int[] outputs = new int[results.length];
        for (int i = 0; i < outputs.length; i++) {
            outputs[i] = results[i] == null ? -1 : capture.output(results[i]);
        }
        return new Captured(new Program(capture, mine, outputs, generator), results);
    }

    /** Sets a mark at this position of the work, if it is being captured. */
    public static void mark(int label) {
        if (Interceptor.current() instanceof Capture capture) {
            capture.mark(label);
        }
    }

    /** Runs {@code body} without capturing its operations. */
    public static <T> T uncaptured(Supplier<T> body) {
        return Interceptor.with(Interceptor.NONE, body);
    }

    private static void requireNoRecorder(String what) {
        if (Recorder.current() != Recorder.NONE) {
            throw TensorException.argument(what, "no tape or other recorder may be bound",
                    "use the recorder inside the work");
        }
    }

    /**
     * Returns whether all tensors that the program uses are open; a parameter that was replaced, for example, is
     * closed.
     */
    public boolean isCurrent() {
        for (Tensor t : external) {
            if (t.isClosed()) {
                return false;
            }
        }
        return !closed;
    }

    /** Runs the program for other inputs; see {@link #run(MarkListener, Tensor...)}. */
    public Tensor[] run(Tensor... given) {
        return run(null, given);
    }

    /**
     * Runs the program for other inputs.
     *
     * @param listener called for each mark as the run passes it, or, on a device that launches the whole program with
     *     one command, for all marks at the end; or {@code null}
     * @param given tensors of the types and shapes at capture, on any device. One that is not contiguous is copied
     *     first, so that sums over it have the order, and the bits, of those over its {@code contiguous()} copy
     * @return the outputs, to read, valid until the next run; the array is shared. A change in place of an output that
     *     is constant, or that is an input or a tensor from before the capture, would last
     * @throws TensorException if inputs do not fit, or a tensor that the program uses is closed. A run that fails in
     *     another way keeps the changes that it made until then; if it was the first run, the program is closed
     */
    public Tensor[] run(@Nullable MarkListener listener, Tensor... given) {
        requireOpen();
        if (!isCurrent()) {
            throw closed("a tensor that the program uses was closed");
        }
        if (Interceptor.current() != Interceptor.NONE) {
            throw TensorException.argument("program", "a program cannot run inside another one",
                    "run it in Program.uncaptured");
        }
        requireNoRecorder("program");
        if (!busy.compareAndSet(false, true)) {
            requireOpen();
            throw TensorException.argument("program", "a program cannot run while it runs, for example in a listener",
                    "run it after that run, or capture another one");
        }
        try {
            bind(given);
            runBound(listener);
            requireOpen();
            fill();
            return results;
        } finally {
            busy.set(false);
            freeIfClosed();
        }
    }

    private void requireOpen() {
        if (closed) {
            throw closed("the program is closed");
        }
    }

    private static TensorException closed(String problem) {
        return new TensorException(TensorException.Problem.CLOSED, "program", List.of(), problem, "capture it again");
    }

    private void runBound(@Nullable MarkListener listener) {
        Generator.State now = generator == null ? null : generator.state();
        Interceptor.replace(replay);
        boolean complete = false;
        try {
            if (planned && recorded()) {
                notifyMarks(listener, 0, nodes.size());
            } else {
                runNodes(listener, now);
            }
            complete = true;
        } finally {
            Interceptor.replace(Interceptor.NONE);
            if (generator != null) {
                generator.advance(4 * blocks);
            }
            if (!complete && !planned) {
                close();
            }
        }
    }

    private void bind(Tensor[] given) {
        if (given.length != inputs.length) {
            throw TensorException.argument("program", "needs " + inputs.length + " inputs, got " + given.length,
                    "give as many inputs as at capture");
        }
        for (int i = 0; i < given.length; i++) {
            Tensor to = inputs[i];
            if (given[i].dtype() != to.dtype() || !given[i].shape().equals(to.shape())) {
                throw new TensorException(TensorException.Problem.SHAPE, "program", List.of(to.spec(),
                        given[i].spec()), "input " + i + " must have the type and shape of the capture",
                        "capture a program for each shape");
            }
        }
        // All copies first: an input that is a view of another input has that one's elements only until it is bound.
        for (int i = 0; i < given.length; i++) {
            near[i] = near(i, given);
        }
        // A run that failed may have left pending pairs.
        pending = 0;
        for (int i = 0; i < given.length; i++) {
            Tensor to = inputs[i];
            if (to.device().backend().hostVisible()) {
                to.storage().relend(near[i]);
            } else if (near[i].device() != to.device()) {
                to.device().backend().upload(near[i].address(), to.address(), to.spec().bytes());
            } else {
                assign(to, near[i]);
            }
        }
        flush();
        Arrays.fill(near, null);
    }

    /** Returns what input {@code i} is bound to: a contiguous tensor, on its device unless it is uploaded from here. */
    private Tensor near(int i, Tensor[] given) {
        Device device = inputs[i].device();
        boolean lends = device.backend().hostVisible();
        if (!lends && given[i].device() != device && given[i].device().backend().hostVisible()) {
            return given[i].contiguous();
        }
        Tensor moved = given[i].to(device);
        Tensor from = lends ? moved.contiguous() : moved;
        boolean isWritten = lends && (arena.contains(from) || sharesMemory(from, changed));
        return isWritten || sharesMemory(from, inputs) ? preserved(i, from, given) : from;
    }

    private static boolean sharesMemory(Tensor tensor, Tensor[] others) {
        for (Tensor other : others) {
            if (tensor.sharesMemoryWith(other)) {
                return true;
            }
        }
        return false;
    }

    /** Returns a copy of an input that the run overwrites: an output of a run before, or a tensor that it updates. */
    private Tensor preserved(int i, Tensor output, Tensor[] given) {
        if (isRead(preserved[i], given, i + 1)) {
            Tensor read = preserved[i];
            preserved[i] = spare[i];
            spare[i] = read;
        }
        Tensor copy = preserved[i];
        if (copy == null) {
            copy = Scope.detached(output::copy);
            preserved[i] = copy;
        } else {
            Tensor.apply(new Update.Assign(), copy, output);
        }
        return copy;
    }

    /** Returns whether a tensor of this run, from the position on, is a view of an input that borrows from the copy. */
    private boolean isRead(@Nullable Tensor copy, Tensor[] given, int from) {
        for (int k = 0; copy != null && k < inputs.length; k++) {
            for (int i = from; i < given.length && borrows(inputs[k], copy); i++) {
                if (given[i].sharesMemoryWith(inputs[k])) {
                    return true;
                }
            }
        }
        return false;
    }

    /** Returns whether a program input borrows from the copy; a memory that was closed since its run is another one. */
    private static boolean borrows(Tensor input, Tensor copy) {
        return !input.isClosed() && input.address() == copy.address();
    }

    /** Copies a tensor to its program input with the next {@link #flush}: a GPU performs all copies together. */
    private void assign(Tensor to, Tensor from) {
        if (pending > 0 && pairs[0][0].device() != to.device()) {
            flush();
        }
        pairs[pending][0] = to;
        pairs[pending++][1] = from;
    }

    private void flush() {
        if (pending > 0) {
            boolean all = pending == pairs.length;
            Tensor.applyAll(all ? assigns : Arrays.copyOf(assigns, pending),
                    all ? pairs : Arrays.copyOf(pairs, pending), null);
            pending = 0;
        }
    }

    /** Runs node by node; the first time this plans the memory. */
    private void runNodes(@Nullable MarkListener listener, Generator.@Nullable State now) {
        int mark = 0;
        for (int i = 0; i < nodes.size(); i++) {
            if (planned) {
                replay.run(i, now);
            } else {
                replay.plan(i, now);
            }
            mark = notifyMarks(listener, mark, i + 1);
            requireOpen();
        }
        planned = true;
    }

    /** Launches the whole program with one command of the device; returns false if the device does not support that. */
    private boolean recorded() {
        if (!recordable) {
            return false;
        }
        if (recording != null && !recording.isUsable()) {
            recording.close();
            recording = null;
        }
        if (recording == null) {
            recording = device.backend().record(nodes.size(), i -> replay.run(i, now()));
            if (recording == null) {
                recordable = false;
                return false;
            }
        } else if (blocks > 0) {
            for (int i = 0; i < nodes.size(); i++) {
                if (nodes.get(i).varies()) {
                    recording.renew(i);
                }
            }
        }
        OperationEvent event = Profiling.isOn() ? OperationEvent.started() : null;
        recording.run();
        for (Tensor tensor : changed) {
            tensor.storage().changed();
        }
        if (event != null) {
            event.done("program", device, size() + " operations in one launch");
        }
        return true;
    }

    private Generator.@Nullable State now() {
        return generator == null ? null : generator.state();
    }

    /**
     * Notifies the listener of marks from number {@code mark} that lie at or before {@code done} nodes; returns the
     * next mark.
     */
    private int notifyMarks(@Nullable MarkListener listener, int mark, int done) {
        int next = mark;
        while (next < marks.size() && marks.get(next).node() <= done) {
            if (listener != null) {
                notifyMark(listener, marks.get(next).label());
            }
            next++;
        }
        return next;
    }

    private void notifyMark(MarkListener listener, int label) {
        fill();
        Interceptor.replace(Interceptor.NONE);
        try {
            listener.onMark(label, results);
        } finally {
            Interceptor.replace(replay);
        }
    }

    private void fill() {
        for (int i = 0; i < outputs.length; i++) {
            results[i] = outputs[i] < 0 ? null : values[outputs[i]];
        }
    }

    /** Returns the number of operations that a run carries out. */
    public int size() {
        return (int) nodes.stream().filter(node -> !node.isIdle()).count();
    }

    /** Returns the size of the program's memory in bytes. */
    public long bytes() {
        return arena.bytes();
    }

    /**
     * Returns the operations as they were captured and as a run carries them out, and what they cost. Before the first
     * run, and after {@link #close}, the program has no memory yet or no longer.
     */
    public Explanation explain() {
        return listing.explain(nodes, bytes());
    }

    /** Returns whether its device launches the whole program with one command. */
    public boolean isRecorded() {
        return recording != null;
    }

    /**
     * Frees the program's memory, and with it the outputs of its runs. A run that has not ended, on this thread or
     * another one, then fails after its current operation, and its end frees the memory.
     */
    @Override
    public void close() {
        closed = true;
        freeIfClosed();
    }

    private void freeIfClosed() {
        // The program stays busy once it was freed.
        if (!closed || !busy.compareAndSet(false, true)) {
            return;
        }
        if (recording != null) {
            recording.close();
            recording = null;
        }
        arena.close();
        owned.forEach(Tensor::close);
        for (Tensor[] copies : List.of(preserved, spare)) {
            for (Tensor copy : copies) {
                if (copy != null) {
                    copy.close();
                }
            }
        }
    }
}
