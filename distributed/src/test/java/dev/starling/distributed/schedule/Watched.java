package dev.starling.distributed.schedule;

import dev.starling.nn.data.Share;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Tensor;

/** A strategy, and when its steps begin and are done. */
final class Watched implements DistributionStrategy {
    private final DistributionStrategy strategy;
    private final Runnable begins;
    private final Runnable done;
    private final Runnable finishes;
    private boolean isBegun;

    /** Has one called when the first gradient of a step comes, one when the step is done, one when all are. */
    Watched(DistributionStrategy strategy, Runnable begins, Runnable done, Runnable finishes) {
        this.strategy = strategy;
        this.begins = begins;
        this.done = done;
        this.finishes = finishes;
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
        if (!isBegun) {
            isBegun = true;
            begins.run();
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
        isBegun = false;
        done.run();
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
        finishes.run();
        strategy.finish();
    }

    @Override
    public void close() {
        strategy.close();
    }
}
