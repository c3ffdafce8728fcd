package dev.starling.jmh.cluster;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * The hosts on which the members of a measurement run: this one alone, or for each member a network namespace with a
 * device of its own. Namespaces are joined by virtual Ethernet and a bridge, so that what members send passes through
 * all of the kernel's network stack, in packets of a real network's length and, if a rate is given, at its speed.
 */
final class Hosts implements AutoCloseable {
    /** The length of Ethernet's packets. */
    static final int MTU = 1500;

    private static final String DEVICE = "eth0";
    private static final String NETWORK = "10.78.0.";
    private static final String BURST = "128kb";
    private static final String QUEUED = "20ms";

    private final String prefix;
    private final int count;
    private final Path agent;
    private final List<String> made = new CopyOnWriteArrayList<>();
    private final Thread hook = new Thread(this::remove, "starling-hosts-shutdown");

    private Hosts(String prefix, int count, Path agent) {
        this.prefix = prefix;
        this.count = count;
        this.agent = agent;
    }

    /** Returns this host, for members that reach each other over the loopback device. */
    static Hosts loopback() {
        return new Hosts("", 0, null);
    }

    /**
     * Makes namespaces, for which the process must be privileged.
     *
     * @param rate at which each may send, such as {@code 1gbit}, or an empty text for no limit
     * @param directory for a file
     * @throws IllegalStateException if the system refuses, with its reason
     */
    static Hosts apart(int count, String rate, Path directory) {
        Path agent = directory.resolve("rsh" + count);
        Hosts hosts = new Hosts("starling" + ProcessHandle.current().pid() + "-", count, agent);
        Runtime.getRuntime().addShutdownHook(hosts.hook);
        try {
            hosts.make(rate);
            Files.writeString(agent, hosts.agent());
            Files.setPosixFilePermissions(agent, PosixFilePermissions.fromString("rwx------"));
        } catch (IOException e) {
            hosts.close();
            throw new UncheckedIOException(e);
        } catch (IllegalStateException e) {
            hosts.close();
            throw e;
        }
        return hosts;
    }

    private void make(String rate) {
        String hub = prefix + "hub";
        add(hub);
        run("ip -n " + hub + " link add hub type bridge");
        run("ip -n " + hub + " link set hub up");
        for (int i = 0; i < count; i++) {
            String port = "port" + i;
            add(name(i));
            run("ip -n " + name(i) + " link add " + DEVICE + " type veth peer name " + port + " netns " + hub);
            run("ip -n " + name(i) + " addr add " + address(i) + "/24 dev " + DEVICE);
            run("ip -n " + name(i) + " link set " + DEVICE + " mtu " + MTU + " up");
            run("ip -n " + name(i) + " link set lo up");
            run("ip -n " + hub + " link set " + port + " mtu " + MTU + " master hub up");
            if (!rate.isEmpty()) {
                run("ip netns exec " + name(i) + " tc qdisc add dev " + DEVICE + " root tbf rate " + rate + " burst "
                    + BURST + " latency " + QUEUED);
            }
        }
    }

    /** Makes a namespace. It counts as made before it is, so that a signal in between leaves none. */
    private void add(String namespace) {
        made.add(namespace);
        try {
            run("ip netns add " + namespace);
        } catch (IllegalStateException e) {
            made.remove(namespace);
            throw e;
        }
    }

    /** Returns a script that starts a command on a host, as {@code rsh} does. */
    private String agent() {
        return IntStream.range(0, count).mapToObj(i -> address(i) + ") name=" + name(i) + ";;")
            .collect(Collectors.joining("\n", "#!/bin/sh\ncase $1 in\n", "\nesac\nshift\n"
            + "exec ip netns exec $name unshare --uts sh -c \"hostname $name; $*\"\n"));
    }

    private String name(int host) {
        return prefix + host;
    }

    /** Returns whether members are on hosts of their own. */
    boolean areApart() {
        return count > 0;
    }

    /** Returns the address of a member's host. */
    String address(int member) {
        return areApart() ? NETWORK + (1 + member) : "127.0.0.1";
    }

    /** Returns the command that runs a command on a member's host. */
    List<String> on(int member, List<String> command) {
        if (!areApart()) {
            return command;
        }
        List<String> all = new ArrayList<>(List.of("ip", "netns", "exec", name(member), "unshare", "--uts", "sh", "-c",
            "hostname " + name(member) + "; exec \"$@\"", "sh"));
        all.addAll(command);
        return all;
    }

    /** Returns the arguments with which {@code mpirun} starts one process on each host. */
    List<String> forMpi(int world) {
        if (!areApart()) {
            return List.of("--mca", "btl_tcp_if_include", "lo");
        }
        return List.of("--host", IntStream.range(0, world).mapToObj(i -> address(i) + ":1")
            .collect(Collectors.joining(",")), "--map-by", "node", "--bind-to", "none",
            "--mca", "routed", "direct", "--leave-session-attached", "--mca",
            "plm_rsh_agent", agent.toString(), "--mca", "btl_tcp_if_include", DEVICE, "--mca", "oob_tcp_if_include",
            DEVICE);
    }

    private static void run(String command) {
        try {
            Process process = new ProcessBuilder(command.split(" ")).redirectErrorStream(true).start();
            String output = new String(process.getInputStream().readAllBytes()).strip();
            if (process.waitFor() != 0) {
                throw new IllegalStateException(command + ": " + output);
            }
        } catch (IOException e) {
            throw new IllegalStateException(command + ": " + e.getMessage(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(command + " was interrupted", e);
        }
    }

    /** Removes the namespaces. */
    @Override
    public void close() {
        if (areApart()) {
            try {
                Runtime.getRuntime().removeShutdownHook(hook);
            } catch (IllegalStateException shuttingDown) {
                return;
            }
            remove();
        }
    }

    private void remove() {
        for (String name : made.reversed()) {
            try {
                run("ip netns del " + name);
            } catch (IllegalStateException e) {
                System.err.println(e.getMessage());
            }
        }
    }
}
