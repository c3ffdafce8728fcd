package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.spark.launcher.JavaModuleOptions;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A standalone master with two workers, and drivers as separate processes. */
@Tag("stress")
@Timeout(600)
class StandaloneClusterTest {
    @TempDir
    private static Path directory;
    private static final List<Process> PROCESSES = new ArrayList<>();
    private static String master;

    private static Process java(String log, String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow()));
        command.addAll(List.of(JavaModuleOptions.defaultModuleOptions().split(" ")));
        command.addAll(List.of(ExecutorFlags.AGRONA, "-XX:+UseSerialGC", "-Xmx512m", "-cp",
                System.getProperty("java.class.path")));
        command.addAll(List.of(arguments));
        ProcessBuilder builder = new ProcessBuilder(command).directory(directory.toFile())
                .redirectErrorStream(true).redirectOutput(directory.resolve(log).toFile());
        Process process = builder.start();
        PROCESSES.add(process);
        return process;
    }

    @BeforeAll
    static void start() throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        master = "spark://127.0.0.1:" + port;
        java("master.log", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port",
                Integer.toString(port), "--webui-port", "0");
        for (int attempt = 0; true; attempt++) {
            try (Socket socket = new Socket("127.0.0.1", port)) {
                assertThat(socket.isConnected()).isTrue();
                break;
            } catch (IOException e) {
                assertThat(attempt).as("master at port %d", port).isLessThan(120);
                Thread.sleep(500);
            }
        }
        for (int i = 0; i < 2; i++) {
            java("worker" + i + ".log", "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g",
                    "--webui-port", "0", "--work-dir", directory.resolve("work" + i).toString(), master);
        }
    }

    @AfterAll
    static void stop() throws InterruptedException {
        for (Process process : PROCESSES) {
            process.descendants().forEach(ProcessHandle::destroy);
            process.destroy();
            process.waitFor(20, TimeUnit.SECONDS);
        }
    }

    private static String run(String... arguments) throws Exception {
        List<String> all = new ArrayList<>(List.of(DriverProgram.class.getName(), master));
        all.addAll(List.of(arguments));
        Process driver = java("driver-" + arguments[0] + ".log", all.toArray(String[]::new));
        assertThat(driver.waitFor(240, TimeUnit.SECONDS)).isTrue();
        return Files.readString(directory.resolve("driver-" + arguments[0] + ".log"), StandardCharsets.UTF_8);
    }

    @Test
    void trainsWithThePluginsFlags() throws Exception {
        String output = run("plugin", directory.toUri() + "data");
        assertThat(output).containsPattern("accuracy 0\\.9\\d+");
        assertThat(Files.list(directory.resolve("data/checkpoints"))).anyMatch(p -> p.toString().endsWith(".json"));
    }

    @Test
    void namesTheFlagThatExecutorsLack() throws Exception {
        assertThat(run("none")).contains("problem: executors run without " + ExecutorFlags.AGRONA, "spark.plugins");
    }
}
