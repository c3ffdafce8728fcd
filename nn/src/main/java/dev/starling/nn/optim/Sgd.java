package dev.starling.nn.optim;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/** Stochastic gradient descent with momentum, Nesterov's if wanted, and weight decay; see {@link Update.Sgd}. */
public final class Sgd implements Optimizer {
    private final Slots slots;
    private final Parameter[] velocities;
    private final Builder how;
    private long steps;

    private Sgd(Builder how) {
        this.how = how;
        slots = new Slots(how.model, how.wanted, how.exempt);
        velocities = how.momentum == 0 ? null : slots.add("velocity");
    }

    /** Begins an optimiser of all parameters of {@code model}; those that are frozen stay as they are meanwhile. */
    public static Builder over(Layer model) {
        return new Builder(model);
    }

    @Override
    public List<Parameter> parameters() {
        return slots.parameters;
    }

    @Override
    public void step(Tensor guard, Tensor[] gradients) {
        Update.Sgd plain = how.op(rate(), 0);
        Update.Sgd decaying = how.weightDecay == 0 ? plain : how.op(rate(), how.weightDecay);
        slots.step(this, i -> slots.decays[i] ? decaying : plain, guard, gradients);
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
        return how.op(rate(), slots.decays[parameter] ? how.weightDecay : 0);
    }

    @Override
    public List<Parameter> kept(int parameter) {
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
    public boolean refused() {
        return slots.refused();
    }

    @Override
    public void requireFinite() {
        slots.requireFinite(this);
    }

    @Override
    public void resume(long taken) {
        steps = taken;
    }

    @Override
    public void close() {
        slots.close();
    }

    /** Gathers what the optimiser is made of. */
    public static final class Builder {
        private final Layer model;
        private Schedule schedule = Schedule.constant(0.01);
        private double momentum;
        private double weightDecay;
        private boolean nesterov;
        private Predicate<String> wanted = path -> true;
        private Predicate<String> exempt = path -> false;

        private Builder(Layer model) {
            this.model = model;
        }

        /** Sets the rate of learning; 0.01 unless told. */
        public Builder rate(double rate) {
            return rate(Schedule.constant(rate));
        }

        /** Sets the rate of learning. */
        public Builder rate(Schedule rates) {
            schedule = rates;
            return this;
        }

        /** Sets the momentum, in [0, 1); 0 unless told. */
        public Builder momentum(double value) {
            if (!(value >= 0 && value < 1)) {
                throw TensorException.argument("sgd", "0 <= momentum < 1 must hold, got " + value, "change it");
            }
            momentum = value;
            return this;
        }

        /** Looks ahead along the velocity. */
        public Builder nesterov() {
            nesterov = true;
            return this;
        }

        /** Sets the L2 penalty; 0 unless told. */
        public Builder weightDecay(double value) {
            weightDecay = Slots.decay("sgd", value);
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
        public Sgd build() {
            return new Sgd(this);
        }

        private Update.Sgd op(double rate, double decay) {
            return new Update.Sgd(rate, momentum, 0, decay, nesterov);
        }
    }
}
