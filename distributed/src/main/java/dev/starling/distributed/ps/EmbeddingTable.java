package dev.starling.distributed.ps;

import dev.starling.autograd.Tape;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.distributed.ps.worker.RemoteTable;
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
import dev.starling.tensor.op.Rule;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A table of rows that may be larger than memory. {@link ParameterServer} servers hold it on their disks, each row on
 * one server; a worker has only the rows of its batch. As a layer it replaces {@link Embedding}: integers {@code [..]}
 * to {@code [.., width]}.
 *
 * <pre>{@code
 * EmbeddingTable items = EmbeddingTable.of("items", 100_000_000, 32).scale(0.05).build();
 * Layer model = Sequential.of(items, new Flatten(), Linear.of(64, 1, generator));
 * Trainer.of(model, loss, Adam.over(model).build()).data(batches).strategy(
 *         ParameterServer.worker(group, number).workers(4).servers(2).build()).build().run();
 * }</pre>
 *
 * <p>The forward pass fetches each row of the batch once. At the end of the step the worker pushes the gradients,
 * summed by row, and the servers apply the optimiser's rule to these rows. A row that is in no batch does not change,
 * even if the optimiser would change a dense parameter without a gradient (momentum, decay). {@link Consistency}
 * applies as to other parameters.
 *
 * <p>Usable from {@link ParameterServer#start} to {@link ParameterServer#finish}, after which the servers end, on the
 * training thread, for training and for evaluation. Servers that have tables need a directory, in which rows survive
 * the process. Checkpoints of the run contain the rows as well.
 */
public final class EmbeddingTable implements Layer {
    private final Plan.Table plan;
    /** {@code null} for that of the worker's optimiser. */
    private final @Nullable Rule rule;
    /**
     * Always 0, and added to the fetched rows so that the tape records a gradient for them: the rows of a batch cannot
     * be a parameter, which has a fixed shape.
     */
    private final Parameter anchor = Parameter.filled(0, 1);
    /** {@code null} while the table is not connected to servers. */
    private @Nullable RemoteTable remote;

    private EmbeddingTable(Builder builder) {
        plan = new Plan.Table(builder.name, builder.width, builder.rows, builder.scale,
                new Rule.Sgd(0, 0, 0, false));
        rule = builder.rule;
    }

    /**
     * Returns a builder of a table.
     *
     * @param name unique among the tables of a run, and the same on all workers
     * @param rows capacity of all servers together; ids may be larger
     * @param width number of elements in a row
     */
    public static Builder of(String name, long rows, int width) {
        return new Builder(name, rows, width);
    }

    /** Returns the name. */
    public String name() {
        return plan.name();
    }

    /** Returns the number of elements in a row. */
    public int width() {
        return plan.width();
    }

    /**
     * Fetches the current rows. A row that was never pushed has its initial elements.
     *
     * @param ids each 0 or more, in any order; may contain duplicates
     * @return {@code [ids, width]}, f32 on the CPU, owned by the caller
     */
    public Tensor pull(long... ids) {
        long[] positions = new long[ids.length];
        try (Scope scope = Scope.open("pull")) {
            Tensor rows = connected().pull(ids, positions);
            return scope.keep(Functions.embedding(rows, Tensor.of(positions, positions.length)));
        }
    }

    /**
     * Adds gradients to those that are pushed at the end of this step. For code that does not use the table as a layer.
     *
     * @param ids each 0 or more; the gradients of duplicates are summed
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
                    + "ParameterServer strategy or add the table to the strategy's builder, and use the table between "
                    + "the strategy's start and the end of the run, the last time in TrainingListener.epochEnded");
        }
        return remote;
    }

    // ---- for the strategy ----

    Parameter anchor() {
        return anchor;
    }

    /** Returns the table's plan, with the rule of {@code otherwise} unless the table has its own. */
    Plan.Table plan(int servers, Supplier<Rule> otherwise) {
        // Ids are hashed, so the servers' shares differ only by chance.
        long each = plan.rows() / servers;
        return new Plan.Table(plan.name(), plan.width(), servers == 1 ? each : each + each / 16 + 256, plan.scale(),
                rule == null ? otherwise.get() : rule);
    }

    boolean isConnected() {
        return remote != null;
    }

    void connect(@Nullable RemoteTable to) {
        remote = to;
    }

    /** Builds a table. */
    public static final class Builder {
        private final String name;
        private final long rows;
        private final int width;
        private double scale;
        /** {@code null} for that of the worker's optimiser. */
        private @Nullable Rule rule;

        private Builder(String name, long rows, int width) {
            if (name.isEmpty() || rows < 1 || width < 1) {
                throw TensorException.argument("embedding table", "the name must not be empty, rows >= 1 and width >= "
                        + "1 must hold; got \"" + name + "\", " + rows + " and " + width, "correct the arguments");
            }
            this.name = name;
            this.rows = rows;
            this.width = width;
        }

        /** Sets the range of new rows: uniform in ±{@code bound}, a function of the id only; default 0. */
        public Builder scale(double bound) {
            if (!(bound >= 0 && bound < Float.MAX_VALUE)) {
                throw TensorException.argument("embedding table", "the scale of new rows must be finite and >= 0, got "
                        + bound, "pass a finite bound >= 0");
            }
            scale = bound;
            return this;
        }

        /** Sets the rule that servers apply to rows; default that of the worker's optimiser. */
        public Builder optimizer(Rule newRule) {
            rule = newRule;
            return this;
        }

        /** Returns a table with the present settings. */
        public EmbeddingTable build() {
            return new EmbeddingTable(this);
        }
    }
}
