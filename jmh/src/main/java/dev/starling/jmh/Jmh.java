package dev.starling.jmh;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Unmatched;

/** Passes its arguments to JMH, which also handles {@code -h}. */
@Command(name = "jmh", description = "Runs this module's JMH benchmarks with JMH's own arguments: jmh -h, jmh -l, "
        + "jmh PutBenchmark -p route=AERON_IPC -prof gc.")
final class Jmh implements Callable<Integer> {
    @Unmatched
    private List<String> arguments = new ArrayList<>();

    @Override
    public Integer call() throws IOException {
        org.openjdk.jmh.Main.main(arguments.toArray(String[]::new));
        return 0;
    }
}
