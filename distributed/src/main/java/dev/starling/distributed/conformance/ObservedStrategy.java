package dev.starling.distributed.conformance;

import dev.starling.nn.data.Share;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.Concludes;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.StepsElsewhere;
import dev.starling.nn.train.StreamsGradients;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Tensor;

/** A strategy whose steps are observed. */
final class ObservedStrategy implements DistributionStrategy, StreamsGradients, Collective, StepsElsewhere, Concludes {
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
    public boolean savesCheckpoints() {
        return strategy.savesCheckpoints();
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
        StreamsGradients.of(strategy).beforeForward(input);
    }

    @Override
    public void gradient(int index, Tensor gradient) {
        if (!begun) {
            begun = true;
            onStepBegun.run();
        }
        StreamsGradients.of(strategy).gradient(index, gradient);
    }

    @Override
    public boolean sendsGradients() {
        return StreamsGradients.of(strategy).sendsGradients();
    }

    @Override
    public void onFailedStep() {
        StreamsGradients.of(strategy).onFailedStep();
    }

    @Override
    public boolean stepsElsewhere() {
        return StepsElsewhere.of(strategy).stepsElsewhere();
    }

    @Override
    public Step beforeStep(Tensor[] gradients) {
        Step decision = strategy.beforeStep(gradients);
        begun = false;
        onStepDone.run();
        return decision;
    }

    @Override
    public void afterStep() {
        strategy.afterStep();
    }

    @Override
    public boolean stops(boolean wanted) {
        return Collective.of(strategy).stops(wanted);
    }

    @Override
    public void settle() {
        strategy.settle();
    }

    @Override
    public void sum(double[] values) {
        Collective.of(strategy).sum(values);
    }

    @Override
    public void finish() {
        onFinish.run();
        Concludes.of(strategy).finish();
    }

    @Override
    public void close() {
        strategy.close();
    }
}
