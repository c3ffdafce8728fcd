package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Model;
import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.nn.chart.LineChart;
import dev.starling.nn.chart.Picture;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.loss.Objective;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * Finds a learning rate: trains for some steps with a rate that grows from step to step, and records the loss. A good
 * rate is where the loss falls fastest, well below the rates at which it rises. (Smith, 2015)
 *
 * <pre>{@code
 * RateTest test = RateTest.run(model, Loss.crossEntropy(), rates -> Adam.over(model).rate(rates).build(), train);
 * double rate = test.suggestion();
 * }</pre>
 *
 * <p>The model's weights and buffers are afterwards those from before, bit for bit, and the test uses an optimiser of
 * its own.
 *
 * @param points what was recorded, in the order of the steps
 */
public record RateTest(List<Point> points) {
    private static final double LOWEST = 1e-7;
    private static final double HIGHEST = 1;
    private static final int STEPS = 100;
    /** Share of the losses before in the smoothed loss. */
    private static final double SMOOTHING = 0.9;
    /** How many times the best loss ends the test. */
    private static final double DIVERGED = 4;
    /** What the first loss counts at least in the bound of losses that are not positive. */
    private static final double LEAST = 1e-6;
    private static final int PARTS = 10;

    /**
     * A step of the test.
     *
     * @param rate its learning rate
     * @param loss the loss before the step, smoothed over the steps before
     */
    public record Point(double rate, double loss) { }

    /** Copies the points. */
    public RateTest {
        points = List.copyOf(points);
    }

    /** Tests 100 rates from 1e-7 to 1; see {@link #run(Layer, Loss, Function, DataLoader, double, double, int)}. */
    public static RateTest run(Layer model, Loss loss, Function<Schedule, Optimizer> optimizer, DataLoader data) {
        return run(model, loss, optimizer, data, LOWEST, HIGHEST, STEPS);
    }

    /**
     * Tests rates in equal ratios. The test ends early when the loss is four times the best one, or not finite. If the
     * best loss is not positive, the bound is instead three times the absolute value of the first loss above the best.
     *
     * @param optimizer makes an optimiser of the model with a given schedule; the test closes it
     * @param lowest the first rate
     * @param highest the last rate
     * @param steps number of rates, at least 2
     */
    public static RateTest run(Layer model, Loss loss, Function<Schedule, Optimizer> optimizer, DataLoader data,
            double lowest, double highest, int steps) {
        return run(model, own -> Trainer.of(model, loss, own), optimizer, data, lowest, highest, steps);
    }

    /** As {@link #run(Layer, Loss, Function, DataLoader)}, for a model with several inputs or results. */
    public static RateTest run(Model<?, ?> model, Objective objective, Function<Schedule, Optimizer> optimizer,
            DataLoader data) {
        return run(model, own -> Trainer.of(model, objective, own), optimizer, data, LOWEST, HIGHEST, STEPS);
    }

    private static RateTest run(Module model, Function<Optimizer, Trainer.Builder> trainer,
            Function<Schedule, Optimizer> optimizer, DataLoader data, double lowest, double highest, int steps) {
        if (!(lowest > 0 && highest > lowest && highest < Double.POSITIVE_INFINITY && steps >= 2)) {
            throw TensorException.argument("rate test", "0 < lowest < highest and steps >= 2 must hold, got " + lowest
                    + ", " + highest + " and " + steps, "test for example 100 rates from 1e-7 to 1");
        }
        Schedule rates = step -> lowest * Math.pow(highest / lowest, (double) step / (steps - 1));
        Recording recording = new Recording(rates, steps);
        try (Scope scope = Scope.open("rate test")) {
            Map<Parameter, Tensor> before = new LinkedHashMap<>();
            model.state().values().forEach(p -> before.put(p, p.master().copy()));
            try (Optimizer own = optimizer.apply(rates)) {
                trainer.apply(own).data(data).epochs(1 + steps / Math.max(1, data.batches())).listeners(recording)
                        .build().run();
            } catch (TensorException e) {
                if (e.problem() != TensorException.Problem.ANOMALY || recording.points.size() < 2) {
                    throw e;
                }
            } finally {
                before.forEach(Parameter::set);
            }
        }
        return new RateTest(recording.points);
    }

    /** Records steps until the loss diverges. */
    private static final class Recording implements TrainingListener {
        private final Schedule rates;
        private final int steps;
        private final List<Point> points = new ArrayList<>();
        private double mean;
        private double first;
        private double best = Double.POSITIVE_INFINITY;

        Recording(Schedule rates, int steps) {
            this.rates = rates;
            this.steps = steps;
        }

        @Override
        public void stepEnded(Progress progress) {
            mean = SMOOTHING * mean + (1 - SMOOTHING) * progress.loss();
            // The mean of the first steps includes its start, 0, which this removes.
            double smoothed = mean / (1 - Math.pow(SMOOTHING, progress.step()));
            first = points.isEmpty() ? Math.max(LEAST, Math.abs(smoothed)) : first;
            points.add(new Point(rates.rate(progress.step() - 1), smoothed));
            best = Math.min(best, smoothed);
            if (points.size() == steps || smoothed > best + (DIVERGED - 1) * (best > 0 ? best : first)) {
                progress.stop();
            }
        }
    }

    /**
     * Returns the rate at which the loss falls most for a given ratio of rates; the lowest if it never falls. The loss
     * before a point and after it are a tenth of all points apart, and the first tenth does not count, so that chance
     * in the batches matters little.
     */
    public double suggestion() {
        int reach = Math.max(1, points.size() / (2 * PARTS));
        double steepest = 0;
        double found = points.getFirst().rate;
        for (int i = Math.max(reach, points.size() / PARTS); i + reach < points.size(); i++) {
            double slope = points.get(i + reach).loss - points.get(i - reach).loss;
            if (slope < steepest) {
                steepest = slope;
                found = points.get(i).rate;
            }
        }
        return found;
    }

    /**
     * Draws the loss over the logarithm of the rate.
     *
     * @param file its name ends in {@code .svg} or {@code .png}
     * @throws dev.starling.nn.data.DataException if it cannot be written
     */
    public void draw(Path file) {
        double[] rates = points.stream().mapToDouble(Point::rate).toArray();
        LineChart chart = new LineChart("loss by learning rate", "learning rate", true).line("", "#d1495b", false,
                rates, points.stream().mapToDouble(Point::loss).toArray());
        Picture.write(file, 640, 400, canvas -> {
            canvas.box(0, 0, 640, 400, "#ffffff");
            chart.draw(canvas, 0, 0, 640, 400);
        });
    }
}
