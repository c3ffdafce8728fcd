package dev.starling.nn.optim;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/** Stochastic gradient descent with momentum (optionally Nesterov's) and weight decay; see {@link Update.Sgd}. */
public final class Sgd implements Optimizer {
    private final Slots slots;
    private final Parameter[] velocities;
    private final SgdConfig config;
    private long steps;

    private Sgd(Builder builder) {
        config = builder.config();
        slots = new Slots(builder.model, builder.selected, builder.exempt);
        velocities = config.momentum() == 0 ? null : slots.add("velocity");
    }

    /**
     * Returns a builder of an optimiser for all parameters of {@code model}. Frozen parameters do not change while
     * frozen.
     */
    public static Builder over(Layer model) {
        return new Builder(model);
    }

    @Override
    public List<Parameter> parameters() {
        return slots.parameters;
    }

    @Override
    public void step(Tensor guard, Tensor[] gradients) {
        Update.Sgd plain = config.op(rate(), 0);
        Update.Sgd decaying = config.weightDecay() == 0 ? plain : config.op(rate(), config.weightDecay());
        slots.step(this, i -> slots.decays[i] ? decaying : plain, guard, gradients);
        steps++;
    }

    @Override
    public long steps() {
        return steps;
    }

    @Override
    public double rate() {
        return config.schedule().rate(steps);
    }

    @Override
    public Update rule(int parameter) {
        return config.op(rate(), slots.decays[parameter] ? config.weightDecay() : 0);
    }

    @Override
    public List<Parameter> stateOf(int parameter) {
        return velocities == null ? List.of() : List.of(velocities[parameter]);
    }

    @Override
    public Map<String, Parameter> state() {
        return slots.state();
    }

    @Override
    public String path(int parameter) {
        return slots.paths.get(parameter);
    }

    @Override
    public boolean skipped() {
        return slots.skipped();
    }

    @Override
    public void requireFinite() {
        slots.requireFinite(this);
    }

    @Override
    public void resume(long completed) {
        steps = completed;
    }

    @Override
    public void close() {
        slots.close();
    }

    /** Collects the settings of the optimiser. */
    public static final class Builder {
        private final Layer model;
        private Schedule schedule = Schedule.constant(0.01);
        private double momentum;
        private double weightDecay;
        private boolean nesterov;
        private Predicate<String> selected = path -> true;
        private Predicate<String> exempt = path -> false;

        private Builder(Layer model) {
            this.model = model;
        }

        /** Sets the learning rate; default 0.01. */
        public Builder rate(double rate) {
            return rate(Schedule.constant(rate));
        }

        /** Sets the schedule of the learning rate. */
        public Builder rate(Schedule rates) {
            schedule = rates;
            return this;
        }

        /** Sets the momentum, in [0, 1); default 0. */
        public Builder momentum(double value) {
            if (!(value >= 0 && value < 1)) {
                throw TensorException.argument("sgd", "0 <= momentum < 1 must hold, got " + value,
                        "use a value in [0, 1)");
            }
            momentum = value;
            return this;
        }

        /** Uses Nesterov momentum. */
        public Builder nesterov() {
            nesterov = true;
            return this;
        }

        /** Sets the L2 penalty; default 0. */
        public Builder weightDecay(double value) {
            weightDecay = Slots.decay("sgd", value);
            return this;
        }

        /**
         * Selects parameters by their path; default all. The optimiser keeps no state for other parameters and never
         * changes them. This is meant for models of which most parameters are frozen permanently.
         */
        public Builder only(Predicate<String> paths) {
            selected = paths;
            return this;
        }

        /** Exempts parameters from weight decay by their path, for example those that end in {@code bias}. */
        public Builder withoutDecay(Predicate<String> paths) {
            exempt = paths;
            return this;
        }

        /** Returns the optimiser, with its state on the parameters' device. */
        public Sgd build() {
            return new Sgd(this);
        }

        private SgdConfig config() {
            return new SgdConfig(momentum, weightDecay, nesterov, schedule);
        }
    }
}
