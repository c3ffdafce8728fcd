package dev.starling.distributed.schedule;

import dev.starling.nn.data.Share;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Tensor;

/** A strategy whose steps are observed. */
final class ObservedStrategy implements DistributionStrategy {
    private final DistributionStrategy strategy;
    private final Runnable onStepBegun;
    private final Runnable onStepDone;
    private final Runnable onFinish;
    private boolean begun;

    /** Creates a strategy with listeners for the first gradient of a step, the end of a step and the end of the run. */
    ObservedStrategy(DistributionStrategy strategy, Runnable onStepBegun, Runnable onStepDone, Runnable onFinish) {
        this.strategy = strategy;
        this.onStepBegun = onStepBegun;
        this.onStepDone = onStepDone;
        this.onFinish = onFinish;
    }

    @Override
    public int rank() {
        return strategy.rank();
    }

    @Override
    public int world() {
        return strategy.world();
    }

    @Override
    public Share share() {
        return strategy.share();
    }

    @Override
    public void start(TrainingState state) {
        strategy.start(state);
    }

    @Override
    public void beforeForward(Tensor input) {
        strategy.beforeForward(input);
    }

    @Override
    public void gradient(int index, Tensor gradient) {
        if (!begun) {
            begun = true;
            onStepBegun.run();
        }
        strategy.gradient(index, gradient);
    }

    @Override
    public boolean stepsElsewhere() {
        return strategy.stepsElsewhere();
    }

    @Override
    public boolean beforeStep(Tensor[] gradients) {
        boolean local = strategy.beforeStep(gradients);
        begun = false;
        onStepDone.run();
        return local;
    }

    @Override
    public void afterStep() {
        strategy.afterStep();
    }

    @Override
    public boolean stops(boolean wanted) {
        return strategy.stops(wanted);
    }

    @Override
    public void settle() {
        strategy.settle();
    }

    @Override
    public void sum(double[] values) {
        strategy.sum(values);
    }

    @Override
    public void finish() {
        onFinish.run();
        strategy.finish();
    }

    @Override
    public void close() {
        strategy.close();
    }
}
