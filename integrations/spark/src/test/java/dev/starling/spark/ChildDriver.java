package dev.starling.spark;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.launcher.JavaModuleOptions;

/** Starts Java programs that use Spark as child processes, with this test's class path. */
public final class ChildDriver {
    private ChildDriver() {
    }

    /** Starts a main class with Spark's flags and Starling's; its output is written to the file {@code log}. */
    public static Process start(Path log, String main, String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow()));
        command.addAll(List.of(JavaModuleOptions.defaultModuleOptions().split(" ")));
        command.addAll(List.of(ExecutorFlags.AGRONA, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp",
                System.getProperty("java.class.path"), main));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command).directory(log.toAbsolutePath().getParent().toFile())
                .redirectErrorStream(true).redirectOutput(log.toFile()).start();
    }
}
