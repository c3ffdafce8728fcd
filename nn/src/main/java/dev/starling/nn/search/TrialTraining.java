package dev.starling.nn.search;

import dev.starling.errors.StarlingException;
import dev.starling.errors.ThreadException;
import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.Sha256;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Scores;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Threads;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * How one trial is trained and measured: what all trials of a search share. Immutable.
 *
 * @param factory class name of the model's factory
 * @param fixed the model's settings that all trials share
 * @param metric what is measured in addition to the loss, or {@code null}
 * @param seed what weights and order are drawn from
 */
public record TrialTraining(String factory, Map<String, String> fixed, Search.Recipe<Loss> loss,
        Search.@Nullable Recipe<Metric> metric, long seed) implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final int MEASURING_BATCH = 256;
    /** The longest wait for the present step of trials that are stopped. */
    private static final Duration ENDING = Duration.ofMinutes(1);

    /**
     * Returns a name for the result of a trial: the same for the same settings, epochs, seed and data.
     *
     * @param data what tells the examples from others
     */
    public String name(Trial.Plan plan, String data) {
        String all = factory + new TreeMap<>(fixed) + new TreeMap<>(plan.settings()) + plan.epochs() + ' ' + seed + ' '
                + (metric == null ? "" : metric.make().name()) + ' ' + data;
        return "trial-" + Sha256.of(all.getBytes(StandardCharsets.UTF_8)).substring(0, 24) + ".properties";
    }

    /**
     * Makes trials in this process and keeps each result as soon as it is there.
     *
     * @param data what tells the examples from others
     * @param sideBySide trials at a time, each in a thread; the results are the same for any number
     * @param kernelThreads of each trial
     * @param store or {@code null}
     * @param eachStep is called after each step of each trial, and ends it by an exception
     * @param ended receives each result, in the order of the plans, on this thread
     */
    public void run(List<Trial.Plan> plans, Dataset train, Dataset heldOut, String data, int sideBySide,
            int kernelThreads, @Nullable TrialStore store, Runnable eachStep, Consumer<Trial> ended) {
        Search.require(sideBySide > 0, "trials side by side must be positive, got " + sideBySide);
        List<Future<Trial>> futures = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(Math.clamp(plans.size(), 1, sideBySide),
                Thread.ofPlatform().name("trial-", 0).daemon().factory());
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        AtomicBoolean stopped = new AtomicBoolean();
        try {
            for (Trial.Plan plan : plans) {
                futures.add(submit(threads, "trial-" + futures.size(), () -> {
                    Thread.currentThread().setContextClassLoader(loader);
                    Trial trial = run(plan, train, heldOut, kernelThreads, eachStep);
                    if (stopped.get()) {
                        // Its problem may be the interruption.
                        throw new CancellationException("the search was stopped");
                    }
                    if (store != null) {
                        TrialFiles.put(store, name(plan, data), trial);
                    }
                    return trial;
                }));
            }
            for (Future<Trial> future : futures) {
                ended.accept(future.get());
            }
        } catch (ExecutionException e) {
            throw e.getCause() instanceof RuntimeException failure ? failure : new IllegalStateException(e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CancellationException("interrupted while trials were under way");
        } finally {
            stopped.set(true);
            end(threads);
        }
    }

    /** Submits a trial, for which the pool may have to start a thread. */
    private static Future<Trial> submit(ExecutorService threads, String name, Callable<Trial> trial) {
        try {
            return threads.submit(trial);
        } catch (OutOfMemoryError e) {
            throw new ThreadException(name, e);
        }
    }

    /** Ends trials that are under way, at their next step: after this none of them reads the caller's examples. */
    private static void end(ExecutorService threads) {
        threads.shutdownNow();
        boolean isInterrupted = Thread.interrupted();
        long deadline = System.nanoTime() + ENDING.toNanos();
        boolean isOver = false;
        while (!isOver && deadline - System.nanoTime() > 0) {
            try {
                isOver = threads.awaitTermination(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            } catch (InterruptedException e) {
                isInterrupted = true;
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private Trial run(Trial.Plan plan, Dataset train, Dataset heldOut, int kernelThreads, Runnable eachStep) {
        long begin = System.nanoTime();
        double[] scores = {Double.POSITIVE_INFINITY, Double.NaN};
        String problem = null;
        try {
            Threads.with(kernelThreads, () -> {
                train(plan, train, heldOut, scores, eachStep);
                return null;
            });
        } catch (StoppedException e) {
            throw e.cause;
        } catch (StarlingException | IllegalArgumentException e) {
            problem = String.valueOf(e.getMessage());
        } catch (RuntimeException | Error e) {
            // A model's own code may throw anything; a combination may need more memory than there is.
            problem = e.toString();
        }
        return new Trial(plan.number(), plan.settings(), plan.epochs(), scores[0], scores[1],
                (System.nanoTime() - begin) / 1e9, problem);
    }

    private void train(Trial.Plan plan, Dataset train, Dataset heldOut, double[] scores, Runnable eachStep) {
        Map<String, String> all = new LinkedHashMap<>(fixed);
        all.putAll(plan.settings());
        double rate = number(all, Search.RATE, 1e-3);
        double batch = number(all, Search.BATCH, 32);
        if (!(rate > 0) || batch < 1 || batch != Math.rint(batch)) {
            throw new IllegalArgumentException("rate > 0 and a whole batch >= 1 must hold, got " + rate + " and "
                    + batch);
        }
        String optimizer = all.getOrDefault(Search.OPTIMIZER, "adam");
        List.of(Search.RATE, Search.BATCH, Search.OPTIMIZER).forEach(all::remove);
        long steps = Math.max(2, plan.epochs() * (long) Math.ceil(train.size() / batch));
        Metric[] metrics = metric == null ? new Metric[0] : new Metric[] {metric.make()};
        try (Layer model = new ModelDescription(factory, all).build(Thread.currentThread().getContextClassLoader(),
                Generator.seeded(seed));
                DataLoader batches = DataLoader.of(train).batchSize((int) batch).workers(0).shuffle().seed(seed)
                        .build();
                DataLoader measured = DataLoader.of(heldOut).batchSize(MEASURING_BATCH).workers(0).build();
                Optimizer steering = optimizer(optimizer, rate, model, steps)) {
            Trainer.of(model, loss.make(), steering).data(batches).epochs(plan.epochs()).seed(seed)
                    .listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            try {
                                if (Thread.currentThread().isInterrupted()) {
                                    throw new CancellationException("the search was stopped");
                                }
                                eachStep.run();
                            } catch (RuntimeException e) {
                                throw new StoppedException(e);
                            }
                        }
                    }).build().run();
            Scores result = Scores.evaluate(model, loss.make(), measured, metrics);
            scores[0] = result.loss();
            scores[1] = metrics.length == 0 ? Double.NaN : result.metric(metrics[0].name());
        }
    }

    /** Ends a trial from outside: what the search itself throws then, not a problem of the trial. */
    private static final class StoppedException extends RuntimeException {
        private static final long serialVersionUID = 1L;
        private final transient RuntimeException cause;

        StoppedException(RuntimeException cause) {
            super(cause);
            this.cause = cause;
        }
    }

    private static Optimizer optimizer(String name, double rate, Layer model, long steps) {
        Schedule schedule = Schedule.oneCycle(rate, steps);
        return switch (name) {
            case "adam" -> Adam.over(model).rate(schedule).build();
            case "adamw" -> AdamW.over(model).rate(schedule).build();
            case "sgd" -> Sgd.over(model).rate(schedule).momentum(0.9).build();
            default -> throw new IllegalArgumentException("there is no optimiser " + name
                    + "; name adam, adamw or sgd");
        };
    }

    private static double number(Map<String, String> settings, String name, double otherwise) {
        String text = settings.get(name);
        try {
            return text == null ? otherwise : Double.parseDouble(text);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(name + " must be a number, got " + text, e);
        }
    }
}
