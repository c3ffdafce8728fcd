package dev.starling.nn.train;

import dev.starling.nn.data.Share;
import dev.starling.tensor.Tensor;

/** The strategy of a run with a single process. Its methods have no effect, so that an observer can extend it. */
public class SingleProcess implements DistributionStrategy, StreamsGradients {
    @Override
    public int rank() {
        return 0;
    }

    @Override
    public int world() {
        return 1;
    }

    @Override
    public Share share() {
        return Share.whole();
    }

    @Override
    public void start(TrainingState state) {
    }

    @Override
    public void gradient(int index, Tensor gradient) {
    }

    @Override
    public boolean sendsGradients() {
        return false;
    }

    @Override
    public Step beforeStep(Tensor[] gradients) {
        return Step.LOCAL;
    }
}
