package dev.starling.jmh.gpu;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** PyTorch in a process of its own, {@code peer.py}, which runs the orders that it receives. */
final class PyTorchProcess implements AutoCloseable {
    private static final String MARK = "@ ";
    private static final String FAILED = "failed ";
    private static final String END = "";

    private final Process process;
    private final Writer orders;
    private final BlockingQueue<String> answers = new LinkedBlockingQueue<>();
    private final Duration timeout;

    /** An error of PyTorch. */
    static final class Failure extends RuntimeException {
        private static final long serialVersionUID = 1;

        Failure(String message) {
            super(message);
        }
    }

    /**
     * Starts the process.
     *
     * @param python an interpreter with PyTorch
     * @param device PyTorch's name of the device
     * @param errors file for the process's standard error
     * @param timeout how long an answer may take
     */
    PyTorchProcess(String python, String device, boolean tf32, Path errors, Duration timeout) {
        this.timeout = timeout;
        try (InputStream source = PyTorchProcess.class.getResourceAsStream("peer.py")) {
            Path script = Files.createTempFile("starling-peer", ".py");
            script.toFile().deleteOnExit();
            Files.copy(source, script, StandardCopyOption.REPLACE_EXISTING);
            process = new ProcessBuilder(python, script.toString(), device, tf32 ? "tf32" : "full")
                    .redirectError(errors.toFile()).start();
        } catch (IOException e) {
            throw new UncheckedIOException(python + " cannot be started", e);
        }
        orders = process.outputWriter(StandardCharsets.UTF_8);
        Thread.ofPlatform().daemon().name("peer-answers").start(this::listen);
    }

    private void listen() {
        try (BufferedReader lines = process.inputReader(StandardCharsets.UTF_8)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith(MARK)) {
                    answers.add(line.substring(MARK.length()));
                }
            }
        } catch (IOException e) {
            // The process has ended.
        }
        answers.add(END);
    }

    /** Returns PyTorch's versions and the card. */
    String describe() {
        return ask("hello");
    }

    /** Prepares a workload. */
    void prepare(GpuWorkload workload) {
        ask("prepare " + workload.order());
    }

    /** Returns the seconds that a number of runs take. */
    double time(int repeats) {
        return Double.parseDouble(ask("time " + repeats));
    }

    /** Releases the workload's memory. */
    void release() {
        ask("release");
    }

    private String ask(String order) {
        try {
            orders.write(order + "\n");
            orders.flush();
            String answer = answers.poll(timeout.toMillis(), TimeUnit.MILLISECONDS);
            if (answer == null) {
                process.destroyForcibly();
                throw new Failure("no answer within " + timeout.toSeconds() + " s to: " + order);
            }
            if (answer.equals(END)) {
                answers.add(END);
                throw new Failure("its process ended at: " + order);
            }
            if (answer.startsWith(FAILED)) {
                throw new Failure(answer.substring(FAILED.length()));
            }
            return answer;
        } catch (IOException e) {
            throw new Failure("its process ended at: " + order);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new Failure("interrupted at: " + order);
        }
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
