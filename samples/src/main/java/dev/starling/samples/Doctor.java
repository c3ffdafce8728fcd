package dev.starling.samples;

import dev.starling.nn.checkpoint.Json;
import dev.starling.samples.Finding.Verdict;
import dev.starling.tensor.Device;
import dev.starling.tensor.spi.Probe;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Reports what this machine offers, and how to obtain what is missing. */
@Command(name = "doctor", description = "Report what this machine offers, and how to obtain what is missing.",
        mixinStandardHelpOptions = true)
public final class Doctor implements Callable<Integer> {
    private static final long MEBIBYTE = 1 << 20;
    private static final int NEEDED_JDK = 25;
    /** Loading the libraries of a GPU may take long. */
    private static final Duration DEVICE_TIMEOUT = Duration.ofSeconds(5);
    /** Unpacking and loading native libraries may take long, too. */
    private static final Duration LIBRARY_TIMEOUT = Duration.ofSeconds(20);
    private static final Duration NETWORK_TIMEOUT = Duration.ofSeconds(5);

    @Option(names = "--json", description = "Print one JSON object instead of lines.")
    private boolean json;

    @Spec
    private CommandSpec spec;

    private final List<Finding> findings = new ArrayList<>();

    @Override
    public Integer call() throws InterruptedException {
        Diagnosis diagnosis = new Diagnosis();
        diagnosis.start("Devices", DEVICE_TIMEOUT, "run doctor again when the machine is less busy", Doctor::devices);
        diagnosis.start("Libraries", LIBRARY_TIMEOUT, "run doctor again when the machine is less busy",
                Doctor::libraries);
        Network.inspect(diagnosis, NETWORK_TIMEOUT);
        jdk();
        flags();
        findings.addAll(diagnosis.findings());
        findings.forEach(json ? f -> { } : this::print);
        if (json) {
            spec.commandLine().getOut().println(asJson());
        }
        spec.commandLine().getOut().flush();
        diagnosis.finish();
        return findings.stream().anyMatch(f -> f.verdict() == Verdict.MISSING) ? 1 : 0;
    }

    private void jdk() {
        int feature = Runtime.version().feature();
        add("JDK", feature >= NEEDED_JDK ? Verdict.OK : Verdict.MISSING,
                Runtime.version() + " by " + System.getProperty("java.vendor"),
                "install JDK " + NEEDED_JDK + " or later");
        Runtime runtime = Runtime.getRuntime();
        add("Machine", Verdict.OK, System.getProperty("os.name") + " " + System.getProperty("os.arch") + ", "
                + runtime.availableProcessors() + " processors, heap up to " + runtime.maxMemory() / MEBIBYTE + " MiB",
                "");
    }

    private void flags() {
        boolean vector = ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent();
        add("Vector API", vector ? Verdict.OK : Verdict.NOTE, vector
                ? "resolved" : "not resolved: loops that are no machine code run scalar",
                "start Java with --add-modules jdk.incubator.vector");
        boolean access = Device.class.getModule().isNativeAccessEnabled();
        add("Native access", access ? Verdict.OK : Verdict.NOTE, access
                ? "enabled" : "not enabled: Java warns at start",
                "start Java with --enable-native-access=ALL-UNNAMED");
    }

    private static List<Finding> devices() {
        List<Finding> devices = new ArrayList<>();
        Map<String, Probe> probes = Device.probes();
        probes.forEach((type, probe) -> {
            switch (probe) {
                case Probe.Ready r ->
                    devices.add(new Finding("Device " + type, Verdict.OK, r.description(), ""));
                case Probe.Missing m ->
                    devices.add(new Finding("Device " + type, Verdict.NOTE, m.reason(), m.remedy()));
            }
        });
        if (!probes.containsKey("cuda")) {
            devices.add(new Finding("Device cuda", Verdict.NOTE, "no GPU backend is on the class path; everything runs "
                    + "on the CPU", "add dev.starling:starling-cuda if the machine has an NVIDIA GPU"));
        }
        return devices;
    }

    private static List<Finding> libraries() {
        return Device.libraries().stream().map(l -> new Finding("Library " + l.name(),
                l.remedy().isEmpty() ? Verdict.OK : Verdict.NOTE, l.state(), l.remedy())).toList();
    }

    private void add(String subject, Verdict verdict, String state, String remedy) {
        findings.add(new Finding(subject, verdict, state, remedy));
    }

    private void print(Finding f) {
        String mark = switch (f.verdict()) {
            case OK -> "ok  ";
            case NOTE -> "note";
            case MISSING -> "MISS";
        };
        var out = spec.commandLine().getOut();
        out.printf("%s  %-17s %s%n", mark, f.subject(), f.state());
        if (!f.remedy().isEmpty()) {
            out.printf("      %-17s -> %s%n", "", f.remedy());
        }
    }

    private String asJson() {
        List<String> items = new ArrayList<>();
        for (Finding f : findings) {
            items.add("{\"subject\":" + Json.quoted(f.subject()) + ",\"verdict\":"
                    + Json.quoted(f.verdict().name().toLowerCase(Locale.ROOT))
                    + ",\"state\":" + Json.quoted(f.state()) + ",\"remedy\":" + Json.quoted(f.remedy()) + "}");
        }
        return "{\"findings\":[" + String.join(",", items) + "]}";
    }
}
