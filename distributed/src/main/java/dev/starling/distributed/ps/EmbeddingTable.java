package dev.starling.distributed.ps;

import dev.starling.autograd.Tape;
import dev.starling.distributed.DistributedException;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.layer.Embedding;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * A table of rows that is larger than memory: {@link ParameterServer} servers hold it on their disks, each row on one
 * of them, and a worker has only those that its batch names. As a layer it takes the place of {@link Embedding}:
 * integers {@code [..]} to {@code [.., width]}.
 *
 * <pre>{@code
 * EmbeddingTable items = EmbeddingTable.of("items", 100_000_000, 32).scale(0.05).build();
 * Layer model = Sequential.of(items, new Flatten(), Linear.of(64, 1, generator));
 * Trainer.of(model, loss, Adam.over(model).build()).data(batches).strategy(
 *         ParameterServer.worker(group, number).workers(4).servers(2).build()).build().run();
 * }</pre>
 *
 * <p>The forward pass fetches each row of the batch once; their gradients leave at the end of the step, summed by row,
 * and the servers take a step of the optimiser on each of these rows. A row that is in no batch stays as it is, also
 * where the optimiser would change a dense one without a gradient (momentum, decay). {@link Consistency} holds as for
 * other parameters.
 *
 * <p>Works between {@link ParameterServer#start} and {@link ParameterServer#close}, on the training thread; also for
 * measuring. Servers that have tables need a directory, where rows outlive them; checkpoints of the run have them, too.
 */
public final class EmbeddingTable implements Layer {
    private final Plan.Table plan;
    private final ServerOptimizer rule;
    /**
     * Always 0, and added to the rows, so that a gradient flows to them: rows are of no fixed number or place, as a
     * parameter must be.
     */
    private final Parameter anchor = Parameter.filled(0, 1);
    private RemoteTable remote;

    private EmbeddingTable(Builder how) {
        plan = new Plan.Table(how.name, how.width, how.rows, how.scale, new ServerOptimizer.Sgd(0, 0, 0, false));
        rule = how.rule;
    }

    /**
     * Begins a table.
     *
     * @param name the same on all workers; no two tables have the same
     * @param rows how many there is room for on all servers together; ids may be larger
     * @param width elements of a row
     */
    public static Builder of(String name, long rows, int width) {
        return new Builder(name, rows, width);
    }

    /** Returns the name. */
    public String name() {
        return plan.name();
    }

    /** Returns how many elements a row has. */
    public int width() {
        return plan.width();
    }

    /**
     * Fetches rows as they are now; one that was never pushed has its initial elements.
     *
     * @param ids 0 or more each, in any order, also several times
     * @return {@code [ids, width]}, f32 on the CPU, the caller's
     */
    public Tensor pull(long... ids) {
        long[] positions = new long[ids.length];
        try (Scope scope = Scope.open("pull")) {
            Tensor rows = connected().pull(ids, positions);
            return scope.keep(Functions.embedding(rows, Tensor.of(positions, positions.length)));
        }
    }

    /**
     * Adds to the gradients that leave at the end of this step, for those who do not use the layer.
     *
     * @param ids 0 or more each; gradients of one that comes several times are summed
     * @param gradients {@code [ids, width]}, weighted as those of {@link ParameterServer#gradient}
     */
    public void push(long[] ids, Tensor gradients) {
        if (gradients.rank() != 2 || gradients.size(0) != ids.length || gradients.size(1) != width()) {
            throw new TensorException(TensorException.Problem.SHAPE, "push", List.of(gradients.spec()),
                    "the gradients of " + ids.length + " rows of table " + name() + " must be [" + ids.length + ", "
                    + width() + "]", "reshape them");
        }
        connected().add(ids, ids.length, gradients);
    }

    @Override
    public Tensor forward(Tensor index) {
        if (index.dtype().isFloating() || index.dtype() == DType.BOOL) {
            throw new TensorException(TensorException.Problem.DTYPE, "embedding table " + name(),
                    List.of(index.spec()), "ids must be integers", "cast with to(DType.I64)");
        }
        RemoteTable rows = connected();
        long[] ids = index.toLongs();
        long[] positions = new long[ids.length];
        Device device = index.device();
        Tensor pulled = rows.pull(ids, positions).to(device);
        if (anchor.requiresGradient() && Recorder.current() instanceof Tape tape) {
            long[] keys = rows.keys();
            pulled = pulled.add(anchor.value());
            tape.hook(pulled, gradient -> {
                rows.add(keys, keys.length, gradient);
                return gradient;
            });
        }
        Tensor places = Tensor.of(positions, positions.length).to(device).reshape(index.shape().dims());
        return Functions.embedding(pulled, places);
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("anchor", anchor);
    }

    private RemoteTable connected() {
        if (remote == null) {
            throw new DistributedException("table " + name() + " is not connected to servers; train its model with a "
                    + "ParameterServer strategy, or give the table to its builder, and use it between start and close");
        }
        return remote;
    }

    // ---- for the strategy ----

    Parameter anchor() {
        return anchor;
    }

    /** Returns what servers are to hold, which follows a rule unless this table has its own. */
    Plan.Table plan(int servers, ServerOptimizer otherwise) {
        // Ids are spread evenly, but for chance.
        long each = plan.rows() / servers;
        return new Plan.Table(plan.name(), plan.width(), servers == 1 ? each : each + each / 16 + 256, plan.scale(),
                rule == null ? otherwise : rule);
    }

    boolean isConnected() {
        return remote != null;
    }

    void connect(RemoteTable to) {
        remote = to;
    }

    /** Gathers what a table is made of. */
    public static final class Builder {
        private final String name;
        private final long rows;
        private final int width;
        private double scale;
        private ServerOptimizer rule;

        private Builder(String name, long rows, int width) {
            if (name.isEmpty() || rows < 1 || width < 1) {
                throw TensorException.argument("embedding table", "a name, rows >= 1 and width >= 1 are needed, got \""
                        + name + "\", " + rows + " and " + width, "change them");
            }
            this.name = name;
            this.rows = rows;
            this.width = width;
        }

        /** Sets what new rows are made of: uniform in ±{@code bound}, from the id alone; 0 unless told. */
        public Builder scale(double bound) {
            if (!(bound >= 0 && bound < Float.MAX_VALUE)) {
                throw TensorException.argument("embedding table", "the scale of new rows must be finite and >= 0, got "
                        + bound, "change it");
            }
            scale = bound;
            return this;
        }

        /** Sets the rule by which rows change; that of the worker's optimiser unless told. */
        public Builder optimizer(ServerOptimizer changes) {
            rule = changes;
            return this;
        }

        /** Makes the table. */
        public EmbeddingTable build() {
            return new EmbeddingTable(this);
        }
    }
}
