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
 * Adam: steps scaled by running means of the gradient and of its square; see {@link Update.Adam}. {@link AdamW} makes
 * it with decoupled weight decay. The means' correction counts the steps of each parameter by itself: one that is
 * unfrozen late begins as others did.
 */
public final class Adam implements Optimizer {
    private final Slots slots;
    private final Parameter[] means;
    private final Parameter[] squares;
    private final Builder how;
    private long steps;

    private Adam(Builder how) {
        this.how = how;
        slots = new Slots(how.model, how.wanted, how.exempt);
        means = slots.add("mean");
        squares = slots.add("square");
    }

    /** Begins an optimiser of all parameters of {@code model}; those that are frozen stay as they are meanwhile. */
    public static Builder over(Layer model) {
        return new Builder(model, false, 0);
    }

    @Override
    public List<Parameter> parameters() {
        return slots.parameters;
    }

    @Override
    public void step(Tensor guard, Tensor[] gradients) {
        Update.Adam plain = how.op(rate(), 0, steps + 1);
        Update.Adam decaying = how.weightDecay == 0 ? plain : how.op(rate(), how.weightDecay, steps + 1);
        slots.step(this, i -> slots.missed[i] > 0 ? rule(i) : slots.decays[i] ? decaying : plain, guard, gradients);
        steps++;
    }

    @Override
    public long steps() {
        return steps;
    }

    @Override
    public double rate() {
        return how.schedule.rate(steps);
    }

    @Override
    public Update rule(int parameter) {
        return how.op(rate(), slots.decays[parameter] ? how.weightDecay : 0, steps + 1 - slots.missed[parameter]);
    }

    @Override
    public List<Parameter> kept(int parameter) {
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
    public boolean refused() {
        return slots.refused();
    }

    @Override
    public void requireFinite() {
        slots.requireFinite(this);
    }

    @Override
    public void resume(long taken) {
        slots.resume(taken, steps);
        steps = taken;
    }

    @Override
    public long[] missed() {
        return slots.missed.clone();
    }

    @Override
    public void resume(long taken, long[] missed) {
        slots.resume(missed);
        steps = taken;
    }

    @Override
    public void close() {
        slots.close();
    }

    /** Gathers what the optimiser is made of. */
    public static final class Builder {
        private final Layer model;
        private final boolean decoupled;
        private double weightDecay;
        private Schedule schedule = Schedule.constant(1e-3);
        private double beta1 = 0.9;
        private double beta2 = 0.999;
        private double epsilon = 1e-8;
        private Predicate<String> wanted = path -> true;
        private Predicate<String> exempt = path -> false;

        Builder(Layer model, boolean decoupled, double weightDecay) {
            this.model = model;
            this.decoupled = decoupled;
            this.weightDecay = weightDecay;
        }

        /** Sets the rate of learning; 0.001 unless told. */
        public Builder rate(double rate) {
            return rate(Schedule.constant(rate));
        }

        /** Sets the rate of learning. */
        public Builder rate(Schedule rates) {
            schedule = rates;
            return this;
        }

        /** Sets how slowly the means of gradient and square change, each in [0, 1); 0.9 and 0.999 unless told. */
        public Builder betas(double gradient, double square) {
            if (!(gradient >= 0 && gradient < 1 && square >= 0 && square < 1)) {
                throw TensorException.argument("adam", "0 <= beta < 1 must hold, got " + gradient + " and " + square,
                        "change them");
            }
            beta1 = gradient;
            beta2 = square;
            return this;
        }

        /** Sets what keeps the division by the deviation finite; 1e-8 unless told. */
        public Builder epsilon(double value) {
            if (!(value >= 0 && value < Double.POSITIVE_INFINITY)) {
                throw TensorException.argument("adam", "epsilon must be >= 0 and finite, got " + value, "change it");
            }
            epsilon = value;
            return this;
        }

        /** Sets the weight decay; 0 unless told, 0.01 for {@link AdamW}. */
        public Builder weightDecay(double value) {
            weightDecay = Slots.decay("adam", value);
            return this;
        }

        /**
         * Chooses parameters by their path; all is the default. The optimiser keeps no state for others and never
         * changes them: for models of which most is frozen for good.
         */
        public Builder only(Predicate<String> paths) {
            wanted = paths;
            return this;
        }

        /** Exempts parameters from weight decay by their path, for example those that end in {@code bias}. */
        public Builder withoutDecay(Predicate<String> paths) {
            exempt = paths;
            return this;
        }

        /** Makes the optimiser, with its state on the parameters' device. */
        public Adam build() {
            return new Adam(this);
        }

        private Update.Adam op(double rate, double decay, long step) {
            return new Update.Adam(rate, beta1, beta2, epsilon, decay, decoupled, step);
        }
    }
}
