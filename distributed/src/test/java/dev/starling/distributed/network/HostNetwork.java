package dev.starling.distributed.network;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Hosts on one Ethernet: network namespaces, each with a virtual cable to a bridge in a namespace of its own. The rest
 * of the machine does not see the network, and closing removes it completely.
 */
public final class HostNetwork implements AutoCloseable {
    private static final Pattern DROPPED = Pattern.compile("counter packets (\\d+)");
    private static final long COMMAND_S = 20;

    private final String name = "starling-" + Long.toHexString(ThreadLocalRandom.current().nextLong() >>> 32);
    private final List<String> namespaces = new ArrayList<>();

    private HostNetwork() { }

    /** Creates the network; skips the test if this process has no permission. */
    public static HostNetwork of(int hosts) {
        assumeTrue("root".equals(System.getProperty("user.name")), "only root may create network namespaces");
        assumeTrue(isInstalled("ip"), "the program ip is not installed (package iproute2)");
        HostNetwork network = new HostNetwork();
        try {
            network.layOut(hosts);
            return network;
        } catch (RuntimeException | Error e) {
            network.close();
            throw e;
        }
    }

    private void layOut(int hosts) {
        String hub = hub();
        assumeTrue(tries("ip", "netns", "add", hub) == 0, "network namespaces cannot be created");
        namespaces.add(hub);
        ip(hub, "link add name bridge type bridge");
        ip(hub, "address add " + bridge() + "/24 dev bridge");
        ip(hub, "link set dev bridge up");
        for (int i = 0; i < hosts; i++) {
            run("ip", "netns", "add", namespace(i));
            namespaces.add(namespace(i));
            ip(hub, "link add name " + cable(i) + " type veth peer name eth0 netns " + namespace(i));
            ip(hub, "link set dev " + cable(i) + " master bridge up");
            ip(namespace(i), "address add " + address(i) + "/24 dev eth0");
            ip(namespace(i), "link set dev eth0 up");
            ip(namespace(i), "link set dev lo up");
        }
    }

    /** Returns the address of a host. */
    public static String address(int host) {
        return "10.77.0." + (host + 1);
    }

    /** Returns the address of the machine in the middle. */
    static String bridge() {
        return "10.77.0.254";
    }

    private static String cable(int host) {
        return "cable" + host;
    }

    private String namespace(int host) {
        return name + '-' + host;
    }

    private String hub() {
        return name + "-hub";
    }

    /** Returns the prefix of commands that run on a host. */
    public List<String> on(int host) {
        return List.of("ip", "netns", "exec", namespace(host));
    }

    /** Returns the prefix of commands that run on the machine in the middle. */
    List<String> inTheMiddle() {
        return List.of("ip", "netns", "exec", hub());
    }

    /** Disconnects a host. */
    public void cut(int host) {
        ip(hub(), "link set dev " + cable(host) + " down");
    }

    /** Connects a host again. */
    public void heal(int host) {
        ip(hub(), "link set dev " + cable(host) + " up");
    }

    /** Makes a host drop a percentage of its incoming packets. */
    void lose(int host, int percent) {
        nft(host, "add table ip lossy; add chain ip lossy in { type filter hook input priority 0; };"
                + " add rule ip lossy in iifname eth0 numgen inc mod 100 < " + percent + " counter drop");
    }

    /** Returns the number of packets that a host has dropped. */
    long lost(int host) {
        List<String> command = new ArrayList<>(on(host));
        command.addAll(List.of("nft", "list", "table", "ip", "lossy"));
        Matcher found = DROPPED.matcher(run(command.toArray(String[]::new)));
        if (!found.find()) {
            throw new IllegalStateException("host " + host + " does not count dropped packets");
        }
        return Long.parseLong(found.group(1));
    }

    /** Redirects a host's packets to a port of another host to a port of the machine in the middle. */
    void divert(int host, int to, int port, int instead) {
        nft(host, "add table ip detour; add chain ip detour out { type nat hook output priority -100; };"
                + " add rule ip detour out ip daddr " + address(to) + " udp dport " + port + " dnat to " + bridge()
                + ':' + instead);
    }

    private void nft(int host, String rules) {
        assumeTrue(isInstalled("nft"), "the program nft is not installed (package nftables)");
        List<String> command = new ArrayList<>(on(host));
        command.addAll(List.of("nft", rules));
        run(command.toArray(String[]::new));
    }

    private static void ip(String namespace, String arguments) {
        List<String> command = new ArrayList<>(List.of("ip", "-n", namespace));
        command.addAll(List.of(arguments.split(" ")));
        run(command.toArray(String[]::new));
    }

    private static boolean isInstalled(String program) {
        for (String directory : (System.getenv("PATH") + ":/usr/sbin:/sbin").split(":")) {
            if (Files.isExecutable(Path.of(directory, program))) {
                return true;
            }
        }
        return false;
    }

    private static int tries(String... command) {
        try {
            Process process = new ProcessBuilder(command).redirectErrorStream(true)
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
            return ended(process) ? process.exitValue() : -1;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String run(String... command) {
        try {
            Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (!ended(process) || process.exitValue() != 0) {
                throw new IllegalStateException(String.join(" ", command) + ": " + output);
            }
            return output;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static boolean ended(Process process) {
        try {
            if (process.waitFor(COMMAND_S, TimeUnit.SECONDS)) {
                return true;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        process.destroyForcibly();
        return false;
    }

    /** Removes the network, also in a thread that is interrupted; the programs on its hosts must have ended. */
    @Override
    public void close() {
        boolean interrupted = Thread.interrupted();
        List<String> stay = new ArrayList<>();
        for (String namespace : namespaces.reversed()) {
            if (tries("ip", "netns", "del", namespace) != 0) {
                stay.add(namespace);
            }
        }
        namespaces.clear();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        if (!stay.isEmpty()) {
            throw new IllegalStateException("cannot delete the network namespaces " + stay);
        }
    }
}
