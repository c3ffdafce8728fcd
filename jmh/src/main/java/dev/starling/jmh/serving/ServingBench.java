package dev.starling.jmh.serving;

import static dev.starling.jmh.Statistics.median;

import dev.starling.jmh.Model;
import dev.starling.jmh.serving.Load.Observed;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.function.ToDoubleFunction;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Compares predictions from many threads with DJL's PyTorch engine. */
@Command(
        name = "serving",
        description = "Compares throughput and latency of predictions, one example per request, with DJL's PyTorch"
            + " engine, in alternating runs. Ratios are medians over pairs; those above 1 are in Starling's favour.",
        mixinStandardHelpOptions = true)
public final class ServingBench implements Callable<Integer> {
    private static final String ROW = "%-5s %7s  %-14s %10s %10s %10s  %s";
    private static final double TOLERANCE = 1e-3;
    private static final int VARIANT_ROUNDS = 3;
    private static final List<Model> COMPARED = List.of(Model.MLP, Model.CNN);

    @Option(names = "--models", split = ",", defaultValue = "MLP,CNN",
            description = "MLP and CNN (default: ${DEFAULT-VALUE}).")
    private List<Model> models;

    @Option(names = "--clients", split = ",", defaultValue = "1,8,64",
            description = "Numbers of threads that send requests (default: ${DEFAULT-VALUE}).")
    private List<Integer> clients;

    @Option(names = "--pairs", defaultValue = "7", description = "Pairs of runs (default: ${DEFAULT-VALUE}).")
    private int pairs;

    @Option(names = "--sample", defaultValue = "1000",
            description = "Milliseconds of one run (default: ${DEFAULT-VALUE}).")
    private long sampleMillis;

    @Option(names = "--warmup", defaultValue = "4000",
            description = "Milliseconds of warm-up of each process (default: ${DEFAULT-VALUE}).")
    private long warmupMillis;

    @Spec
    private CommandSpec spec;

    /** Called by the command line. */
    public ServingBench() {
    }

    @Override
    public Integer call() {
        if (pairs < 1 || clients.stream().anyMatch(n -> n < 1) || sampleMillis < 2 || warmupMillis < 1) {
            throw new ParameterException(spec.commandLine(), "--pairs, --clients and --warmup must be 1 or more and "
                    + "--sample 2 or more, got " + pairs + ", " + clients + ", " + warmupMillis + " and "
                    + sampleMillis);
        }
        if (!COMPARED.containsAll(models)) {
            throw new ParameterException(spec.commandLine(), "--models must be of " + COMPARED + ", got " + models);
        }
        System.out.printf(ROW + "%n", "model", "clients", "server", "answers/s", "p50 µs", "p99 µs",
                "ratios: answers/s, p50, p99");
        for (Model model : models) {
            try (ServerProcess ours = new ServerProcess(Contender.STARLING, model);
                    ServerProcess oneThread = new ServerProcess(Contender.DJL_ONE_THREAD, model);
                    ServerProcess djl = new ServerProcess(Contender.DJL, model)) {
                for (ServerProcess process : List.of(ours, oneThread, djl)) {
                    requireSame(ours.result(), process.result());
                    process.run(8, warmupMillis);
                }
                for (int n : clients) {
                    compare(model, n, ours, fastest(n, oneThread, djl));
                }
            }
        }
        return 0;
    }

    private static void requireSame(float[] ours, float[] theirs) {
        for (int i = 0; i < ours.length; i++) {
            if (!(Math.abs(ours[i] - theirs[i]) <= TOLERANCE)) {
                throw new IllegalStateException("the models differ: " + Arrays.toString(ours) + " and "
                        + Arrays.toString(theirs));
            }
        }
    }

    /** Returns the variant of the peer with the highest throughput. */
    private ServerProcess fastest(int n, ServerProcess... variants) {
        List<List<Observed>> observed = new ArrayList<>();
        Arrays.stream(variants).forEach(_ -> observed.add(new ArrayList<>()));
        for (int round = 0; round < VARIANT_ROUNDS; round++) {
            for (int v = 0; v < variants.length; v++) {
                observed.get(v).add(variants[v].run(n, sampleMillis / 2));
            }
        }
        int best = 0;
        for (int v = 1; v < variants.length; v++) {
            best = of(observed.get(v), Observed::perSecond) > of(observed.get(best), Observed::perSecond) ? v : best;
        }
        return variants[best];
    }

    private void compare(Model model, int n, ServerProcess us, ServerProcess them) {
        List<Observed> ours = new ArrayList<>();
        List<Observed> theirs = new ArrayList<>();
        us.run(n, sampleMillis / 2);
        them.run(n, sampleMillis / 2);
        for (int i = 0; i < pairs; i++) {
            if (i % 2 == 0) {
                ours.add(us.run(n, sampleMillis));
                theirs.add(them.run(n, sampleMillis));
            } else {
                theirs.add(them.run(n, sampleMillis));
                ours.add(us.run(n, sampleMillis));
            }
        }
        row(model, n, us, ours, "");
        double[] ratios = new double[3];
        for (int r = 0; r < ratios.length; r++) {
            List<ToDoubleFunction<Observed>> values = List.of(Observed::perSecond, o -> 1 / o.p50(), o -> 1 / o.p99());
            ToDoubleFunction<Observed> value = values.get(r);
            double[] each = new double[pairs];
            Arrays.setAll(each, i -> value.applyAsDouble(ours.get(i)) / value.applyAsDouble(theirs.get(i)));
            ratios[r] = median(each);
        }
        row(model, n, them, theirs, "%.2f, %.2f, %.2f".formatted(ratios[0], ratios[1], ratios[2]));
    }

    private static double of(List<Observed> observed, ToDoubleFunction<Observed> value) {
        return median(observed.stream().mapToDouble(value).toArray());
    }

    private static void row(Model model, int n, ServerProcess process, List<Observed> observed, String ratios) {
        System.out.printf(ROW + "%n", model.name().toLowerCase(Locale.ROOT), n,
                process.contender().name().toLowerCase(Locale.ROOT), "%.0f".formatted(of(observed,
                Observed::perSecond)), "%.0f".formatted(of(observed, Observed::p50)),
                "%.0f".formatted(of(observed, Observed::p99)), ratios);
    }
}
