import dev.starling.distributed.conformance.*;
import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;
import java.lang.ref.Reference;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Data-parallel training by two threads: each computes the gradient of one half of every batch, and adds the other. */
static final class Pair implements DistributionStrategy, Collective {
    private final int rank;
    private final Exchanger<double[]> exchanger;
    private TrainingState state;

    Pair(int rank, Exchanger<double[]> exchanger) {
        this.rank = rank;
        this.exchanger = exchanger;
    }

    public int rank() {
        return rank;
    }

    public int world() {
        return 2;
    }

    public Share share() {
        return Share.part(rank, 2);
    }

    /** Both begin with the weights of rank 0, to which rank 1 adds zeros. */
    public void start(TrainingState newState) {
        state = newState;
        state.tensors().values().forEach(weights -> {
            try (Scope scope = Scope.open()) {
                weights.set(sum(weights.value().mul(1 - rank)));
            }
        });
    }

    public Step beforeStep(Tensor[] gradients) {
        for (int i = 0; i < gradients.length; i++) {
            // A rank without rows of the batch has no gradient.
            Parameter weights = state.optimizer().parameters().get(i);
            gradients[i] = sum(gradients[i] == null ? weights.value().zerosLike() : gradients[i]);
        }
        return Step.LOCAL;
    }

    public boolean stops(boolean requested) {
        double[] votes = {requested ? 1 : 0};
        sum(votes);
        return votes[0] > 0;
    }

    public void sum(double[] values) {
        try {
            double[] others = exchanger.exchange(values.clone(), 10, TimeUnit.SECONDS);
            Arrays.setAll(values, i -> values[i] + others[i]);
        } catch (InterruptedException | TimeoutException e) {
            throw new IllegalStateException("rank " + rank + " waited 10 s for the other one", e);
        }
    }

    private Tensor sum(Tensor own) {
        double[] values = own.toDoubles();
        sum(values);
        return Tensor.of(values, own.shape().dims()).to(own.dtype());
    }
}

/** Returns points on two interleaved spirals; the class of a point is the number of its spiral. */
TensorDataset spirals(int points, Generator random) {
    Tensor spiral = random.integers(0, 2, points);
    Tensor radius = random.uniform(points);
    Tensor angle = radius.mul(8).add(spiral.to(DType.F32).mul(Math.PI));
    return TensorDataset.of(Tensor.stack(1, radius.mul(angle.cos()), radius.mul(angle.sin())), spiral);
}

/** Trains one worker and returns the weights of its last layer. */
float[] train(DistributionStrategy strategy, boolean prints) {
    Generator random = Generator.seeded(strategy.rank());
    Linear last = Linear.of(64, 2, random);
    Sequential model = Sequential.of(Linear.of(2, 64, random), new Relu(), Linear.of(64, 64, random), new Relu(), last);
    Generator points = Generator.seeded(42);
    try (DataLoader train = DataLoader.of(spirals(4000, points)).batchSize(50).shuffle().build();
            DataLoader test = DataLoader.of(spirals(1000, points)).batchSize(1000).build(); strategy) {
        History history = Trainer.of(model, Loss.crossEntropy(), Sgd.over(model).rate(0.1).momentum(0.9).build())
                .data(train).heldOut(test).metrics(Metric.accuracy()).epochs(15).strategy(strategy).build().run();
        if (prints) {
            IO.println(history);
        }
        return last.weight().value().toFloats();
    }
}

double difference(float[] a, float[] b) {
    return IntStream.range(0, a.length).mapToDouble(i -> Math.abs(a[i] - b[i])).max().orElseThrow();
}

void main() throws Exception {
    Exchanger<double[]> exchanger = new Exchanger<>();
    try (ExecutorService workers = Executors.newFixedThreadPool(2)) {
        Future<float[]> first = workers.submit(() -> train(new Pair(0, exchanger), true));
        Future<float[]> second = workers.submit(() -> train(new Pair(1, exchanger), false));
        IO.println("both workers' weights differ by " + difference(first.get(), second.get()));
        IO.println("those of a single process differ by " + difference(first.get(), train(new SingleProcess(), false)));
    }
    // Simulated processes report their losses; what is wrong would be in the exception.
    Logger log = Logger.getLogger("dev.starling");
    log.setLevel(Level.OFF);
    IO.println("20 times under simulated faults: "
            + StrategyConformance.of(ElasticStrategy::new).elastic().run(LongStream.range(0, 20)));
    Reference.reachabilityFence(log);
}
