package dev.starling.nn.optim;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/**
 * The Adam optimiser: steps scaled by running means of the gradient and of its square; see {@link Update.Adam}.
 * {@link AdamW} creates it with decoupled weight decay. The bias correction of the means counts the steps of each
 * parameter separately, so that a parameter that is unfrozen late starts like any other.
 */
public final class Adam implements Optimizer {
    private final Slots slots;
    private final Parameter[] means;
    private final Parameter[] squares;
    private final AdamConfig config;
    private long steps;

    private Adam(Builder builder) {
        config = builder.config();
        slots = new Slots(builder.model, builder.selected, builder.exempt);
        means = slots.add("mean");
        squares = slots.add("square");
    }

    /**
     * Returns a builder of an optimiser for all parameters of {@code model}. Frozen parameters do not change while
     * frozen.
     */
    public static Builder over(Layer model) {
        return new Builder(model, false, 0);
    }

    @Override
    public List<Parameter> parameters() {
        return slots.parameters;
    }

    @Override
    public void step(Tensor guard, Tensor[] gradients) {
        Update.Adam plain = config.op(rate(), 0, steps + 1);
        Update.Adam decaying = config.weightDecay() == 0 ? plain : config.op(rate(), config.weightDecay(), steps + 1);
        slots.step(this, i -> slots.missed[i] > 0 ? rule(i) : slots.decays[i] ? decaying : plain, guard, gradients);
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
        double decay = slots.decays[parameter] ? config.weightDecay() : 0;
        return config.op(rate(), decay, steps + 1 - slots.missed[parameter]);
    }

    @Override
    public List<Parameter> stateOf(int parameter) {
        return List.of(means[parameter], squares[parameter]);
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
        slots.resume(completed, steps);
        steps = completed;
    }

    @Override
    public long[] missed() {
        return slots.missed.clone();
    }

    @Override
    public void resume(long completed, long[] missed) {
        slots.resume(missed);
        steps = completed;
    }

    @Override
    public void close() {
        slots.close();
    }

    /** Collects the settings of the optimiser. */
    public static final class Builder {
        private final Layer model;
        private final boolean decoupled;
        private double weightDecay;
        private Schedule schedule = Schedule.constant(1e-3);
        private double beta1 = 0.9;
        private double beta2 = 0.999;
        private double epsilon = 1e-8;
        private Predicate<String> selected = path -> true;
        private Predicate<String> exempt = path -> false;

        Builder(Layer model, boolean decoupled, double weightDecay) {
            this.model = model;
            this.decoupled = decoupled;
            this.weightDecay = weightDecay;
        }

        /** Sets the learning rate; default 0.001. */
        public Builder rate(double rate) {
            return rate(Schedule.constant(rate));
        }

        /** Sets the schedule of the learning rate. */
        public Builder rate(Schedule rates) {
            schedule = rates;
            return this;
        }

        /** Sets the decay rates of the means of gradient and square, each in [0, 1); default 0.9 and 0.999. */
        public Builder betas(double gradient, double square) {
            if (!(gradient >= 0 && gradient < 1 && square >= 0 && square < 1)) {
                throw TensorException.argument("adam", "0 <= beta < 1 must hold, got " + gradient + " and " + square,
                        "use values in [0, 1)");
            }
            beta1 = gradient;
            beta2 = square;
            return this;
        }

        /**
         * Sets the number that is added to the root of the squares' mean, so that the division stays finite; default
         * 1e-8.
         */
        public Builder epsilon(double value) {
            if (!(value >= 0 && value < Double.POSITIVE_INFINITY)) {
                throw TensorException.argument("adam", "epsilon must be >= 0 and finite, got " + value,
                        "use a small positive number");
            }
            epsilon = value;
            return this;
        }

        /** Sets the weight decay; default 0, and 0.01 for {@link AdamW}. */
        public Builder weightDecay(double value) {
            weightDecay = Slots.decay("adam", value);
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
        public Adam build() {
            return new Adam(this);
        }

        private AdamConfig config() {
            return new AdamConfig(decoupled, weightDecay, schedule, beta1, beta2, epsilon);
        }
    }
}
