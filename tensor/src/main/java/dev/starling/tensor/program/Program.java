package dev.starling.tensor.program;

import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.profile.OperationEvent;
import dev.starling.tensor.spi.Recording;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;

/**
 * A piece of work that was seen once and is done again for other inputs: the operations that passed the gate, without
 * the code that called for them. What nobody needs is left out, what does not depend on inputs is computed once, and
 * memory is planned: runs after the first allocate nothing. A device that can do so takes all of it down and does it at
 * one command (a CUDA graph). Chains of elementwise operations become one kernel. Results are those of the work itself:
 * bit for bit on the CPU, to within a rounding where another device brings a product and a sum of a chain together.
 *
 * <pre>{@code
 * var captured = Program.capture(null, in -> new Tensor[] {model.forward(in[0])}, x);
 * try (Program program = captured.program()) {
 *     Tensor y = program.run(another)[0];
 * }
 * }</pre>
 *
 * <p>Everything but the inputs and random numbers stays as it was when captured: tensors that were there before are
 * read where they are (a parameter's present elements), while numbers and branches of the host are part of the
 * program. Whatever the work does beside operations it does once. Confined to one thread at a time.
 */
public final class Program implements AutoCloseable {
    private final List<Node> nodes;
    private final List<Capture.Mark> marks;
    private final Tensor[] inputs;
    private final int[] outputs;
    private final Tensor[] results;
    /** What was there before, by which the program knows that it is still right. */
    private final Tensor[] outside;
    private final List<Tensor> owned;
    private final Tensor[] values;
    private final Generator generator;
    private final long blocks;
    private final Device device;
    private final boolean recordable;
    private final Arena arena = new Arena();
    private final Replay replay;
    private final Update[] assigns;
    /** Inputs and where they are copied to, as many as are {@link #pending}. */
    private final Tensor[][] pairs;
    private int pending;
    /** What a recording changes in place. */
    private final Tensor[] changed;
    private boolean planned;
    private boolean refused;
    private boolean closed;
    private Recording recording;

    /** What is captured: operations on tensors. */
    @FunctionalInterface
    public interface Work {
        /** Computes results, some of which may be {@code null}, from inputs. */
        Tensor[] run(Tensor[] inputs);
    }

    /** Is told of the places that {@link #mark} has marked. */
    @FunctionalInterface
    public interface Places {
        /** What comes before the place is done, or queued; may throw to end the run. */
        void passed(int label, Tensor[] outputs);
    }

    /**
     * A program, and the outputs of the run in which it was captured.
     *
     * @param program for the runs to come; the caller closes it
     * @param outputs in the current scope, as the work made them
     */
    public record Captured(Program program, Tensor[] outputs) { }

    private Program(Capture capture, Tensor[] specimens, int[] outputs, Generator generator) {
        Flow flow = new Flow(capture, outputs);
        nodes = flow.nodes;
        marks = flow.marks;
        inputs = new Tensor[specimens.length];
        assigns = new Update[inputs.length];
        Arrays.fill(assigns, new Update.Assign());
        pairs = new Tensor[inputs.length][2];
        this.outputs = outputs;
        this.generator = generator;
        results = new Tensor[outputs.length];
        owned = capture.owned;
        outside = capture.given.stream().filter(t -> t != null && !owned.contains(t)).toArray(Tensor[]::new);
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
            inputs[i] = like.device().backend().hostVisible() ? like.lend(like.spec(), like.shape().contiguousStrides())
                    : arena.take(like.device(), like.spec().bytes()).lend(like.spec(),
                            like.shape().contiguousStrides());
            values[i] = inputs[i];
        }
        int[] group = capture.group.stream().mapToInt(g -> g).toArray();
        replay = new Replay(flow, group, values, arena, capture.start());
    }

    /**
     * Runs the work and takes down what it does.
     *
     * @param generator what the work draws random numbers from, or {@code null} if it draws none; a run draws from it
     *     as the work would
     * @param work must use inputs as it is given them, and read no elements on the host
     * @param inputs at least one; what differs from run to run
     * @throws TensorException if the work does what cannot be captured; it says what
     */
    public static Captured capture(Generator generator, Work work, Tensor... inputs) {
        if (inputs.length == 0 || Interceptor.current() != null) {
            throw TensorException.argument("capture", inputs.length == 0 ? "needs at least one input"
                    : "nothing can be captured while a program is captured or run", "change it");
        }
        requireNoRecorder("capture");
        Tensor[] mine = new Tensor[inputs.length];
        for (int i = 0; i < mine.length; i++) {
            mine[i] = inputs[i].contiguous();
        }
        for (int i = 0; i < mine.length; i++) {
            mine[i] = mine[i].view(mine[i].shape(), mine[i].shape().contiguousStrides(), mine[i].offset());
        }
        Capture capture = new Capture(generator, mine);
        Tensor[] results = Interceptor.with(capture, () -> work.run(mine));
        int[] outputs = new int[results.length];
        for (int i = 0; i < outputs.length; i++) {
            outputs[i] = results[i] == null ? -1 : capture.output(results[i]);
        }
        return new Captured(new Program(capture, mine, outputs, generator), results);
    }

    /** Marks this place in the work that is being captured, if one is. */
    public static void mark(int label) {
        if (Interceptor.current() instanceof Capture capture) {
            capture.mark(label);
        }
    }

    /** Runs {@code body} without capturing what it does. */
    public static <T> T aside(Supplier<T> body) {
        return Interceptor.with(null, body);
    }

    private static void requireNoRecorder(String what) {
        if (Recorder.current() != Recorder.NONE) {
            throw TensorException.argument(what, "a program cannot be seen by a tape or another recorder",
                    "capture the recording as a part of the work");
        }
    }

    /** Tells whether all that the program uses is still there: closed parameters, for example, were replaced. */
    public boolean isCurrent() {
        for (Tensor t : outside) {
            if (t.isClosed()) {
                return false;
            }
        }
        return !closed;
    }

    /** Does the work for other inputs; see {@link #run(Places, Tensor...)}. */
    public Tensor[] run(Tensor... given) {
        return run(null, given);
    }

    /**
     * Does the work for other inputs.
     *
     * @param places is told of marks as they are passed, on a device that does all at one command at the end; or
     *     {@code null}
     * @param given of the types and shapes of those at capture, on any device
     * @return the outputs, valid until the next run; the array is shared
     * @throws TensorException if inputs do not fit, or what the program uses is closed. A run that fails in another
     *     way has changed what it had changed by then; if it was the first, the program is closed
     */
    public Tensor[] run(Places places, Tensor... given) {
        if (!isCurrent()) {
            throw new TensorException(TensorException.Problem.CLOSED, "program", List.of(),
                    closed ? "the program is closed" : "a tensor that the program uses was closed", "capture it anew");
        }
        if (Interceptor.current() != null) {
            throw TensorException.argument("program", "a program cannot run inside another one", "run it aside");
        }
        requireNoRecorder("program");
        bind(given);
        Generator.State now = generator == null ? null : generator.state();
        Interceptor.replace(replay);
        boolean complete = false;
        try {
            if (!planned) {
                plan(places, now);
            } else if (recorded()) {
                pass(places, 0, nodes.size());
            } else {
                replay(places, now);
            }
            complete = true;
        } finally {
            Interceptor.replace(null);
            if (blocks > 0) {
                generator.advance(4 * blocks);
            }
            if (!complete && !planned) {
                close();
            }
        }
        fill();
        return results;
    }

    private void bind(Tensor[] given) {
        if (given.length != inputs.length) {
            throw TensorException.argument("program", "needs " + inputs.length + " inputs, got " + given.length,
                    "give as many as at capture");
        }
        // A run that was refused may have left some.
        pending = 0;
        for (int i = 0; i < given.length; i++) {
            Tensor to = inputs[i];
            if (given[i].dtype() != to.dtype() || !given[i].shape().equals(to.shape())) {
                throw new TensorException(TensorException.Problem.SHAPE, "program", List.of(to.spec(),
                        given[i].spec()), "input " + i + " must be as at capture", "capture a program for each shape");
            }
            boolean here = given[i].device() == to.device();
            if (to.device().backend().hostVisible()) {
                to.relend((here ? given[i] : given[i].to(to.device())).contiguous());
            } else if (!here && given[i].device().backend().hostVisible()) {
                to.device().backend().upload(given[i].contiguous().address(), to.address(), to.spec().bytes());
            } else {
                assign(to, given[i].to(to.device()));
            }
        }
        flush();
    }

    /** Copies an input to its place with the next {@link #flush}: a GPU does all of them at once. */
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

    private void plan(Places places, Generator.State now) {
        int mark = 0;
        for (int i = 0; i < nodes.size(); i++) {
            replay.plan(i, now);
            mark = pass(places, mark, i + 1);
        }
        planned = true;
    }

    private void replay(Places places, Generator.State now) {
        int mark = 0;
        for (int i = 0; i < nodes.size(); i++) {
            replay.run(i, now);
            mark = pass(places, mark, i + 1);
        }
    }

    /** Lets the device do all of it at one command, if it can. */
    private boolean recorded() {
        if (!recordable || refused) {
            return false;
        }
        if (recording == null) {
            recording = device.backend().record(nodes.size(), i -> replay.run(i, now()));
            refused = recording == null;
            if (refused) {
                return false;
            }
        } else if (blocks > 0) {
            for (int i = 0; i < nodes.size(); i++) {
                if (nodes.get(i).varies()) {
                    recording.renew(i);
                }
            }
        }
        OperationEvent event = OperationEvent.isOn() ? OperationEvent.started() : null;
        recording.run();
        for (Tensor tensor : changed) {
            tensor.changed();
        }
        if (event != null) {
            event.done("program", device, size() + " operations at one command");
        }
        return true;
    }

    private Generator.State now() {
        return generator == null ? null : generator.state();
    }

    /** Tells of the marks from number {@code mark} on that lie at or before {@code done} nodes; returns the next. */
    private int pass(Places places, int mark, int done) {
        int next = mark;
        while (next < marks.size() && marks.get(next).node() <= done) {
            if (places != null) {
                passed(places, marks.get(next).label());
            }
            next++;
        }
        return next;
    }

    private void passed(Places places, int label) {
        fill();
        Interceptor.replace(null);
        try {
            places.passed(label, results);
        } finally {
            Interceptor.replace(replay);
        }
    }

    private void fill() {
        for (int i = 0; i < outputs.length; i++) {
            results[i] = outputs[i] < 0 ? null : values[outputs[i]];
        }
    }

    /** Returns how many operations a run carries out. */
    public int size() {
        return (int) nodes.stream().filter(node -> !node.isIdle()).count();
    }

    /** Returns how much memory the program holds on to, in bytes. */
    public long bytes() {
        return arena.bytes();
    }

    /** Tells whether its device does all of it at one command. */
    public boolean isRecorded() {
        return recording != null;
    }

    /** Gives the memory back; outputs of runs are closed with it. */
    @Override
    public void close() {
        closed = true;
        if (recording != null) {
            recording.close();
            recording = null;
        }
        arena.close();
        owned.forEach(Tensor::close);
    }
}
