/*
 * Open MPI's side of the cluster benchmark. Rank 0 reads orders line by line from standard input, and answers each
 * with a line that starts with "@ ": the nanoseconds of one run on the slowest rank. An order is a name, a message's
 * length in bytes and a number of runs:
 *   allreduce   sum of floats, in place
 *   roundtrip   a message from rank 0 to rank 1 and back
 *   put         a one-sided write from rank 0 to rank 1 or the other way, until that rank reads it
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 64 << 20, ALIGNMENT = 2 << 20 };

static int rank;
static float *data;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void allreduce(long bytes)
{
    MPI_Allreduce(MPI_IN_PLACE, data, (int) (bytes / sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void roundtrip(long bytes)
{
    if (rank == 0) {
        MPI_Send(data, (int) bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(data, (int) bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(data, (int) bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(data, (int) bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

/* One-sided writes from rank 0 to rank 1 and back; each rank waits until it reads the other's number. */
static double put_and_wait(long bytes, int runs)
{
    MPI_Win window;
    volatile long *seen;
    char *target;
    double nanos;
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &target, &window);
    memset(target, 0, bytes);
    seen = (volatile long *) (target + bytes - sizeof(long));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    double start = now();
    for (int turn = 0; turn < 2 * runs && rank < 2; turn++) {
        long number = turn / 2 + 1;
        if (turn % 2 == rank) {
            memcpy((char *) data + bytes - sizeof number, &number, sizeof number);
            MPI_Put(data, (int) bytes, MPI_BYTE, 1 - rank, 0, (int) bytes, MPI_BYTE, window);
            MPI_Win_flush(1 - rank, window);
        } else {
            while (*seen != number) {
                MPI_Win_sync(window);
            }
        }
    }
    nanos = now() - start;
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    return nanos / 2;
}

static double run(const char *what, long bytes, int runs)
{
    double start, mine, slowest;
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(what, "put") == 0) {
        mine = put_and_wait(bytes, runs) / runs;
    } else {
        start = now();
        for (int i = 0; i < runs; i++) {
            if (strcmp(what, "allreduce") == 0) {
                allreduce(bytes);
            } else {
                roundtrip(bytes);
            }
        }
        mine = (now() - start) / runs;
    }
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return slowest;
}

/* Broadcasts rank 0's order. A rank without an order sleeps, so that it takes no core from other processes. */
static int share(char *order, int length)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibcast(order, length, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE)) {
        usleep(1000);
    }
    return order[0] != '\0';
}

int main(int argc, char **argv)
{
    char order[128];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    data = aligned_alloc(ALIGNMENT, LARGEST);
    if (data == NULL) {
        fprintf(stderr, "no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    madvise(data, LARGEST, MADV_HUGEPAGE);
    memset(data, 0, LARGEST);
    for (;;) {
        char what[32];
        long bytes;
        int runs;
        if (rank == 0 && fgets(order, sizeof order, stdin) == NULL) {
            order[0] = '\0';
        }
        if (!share(order, sizeof order)) {
            break;
        }
        if (sscanf(order, "%31s %ld %d", what, &bytes, &runs) != 3 || bytes > LARGEST) {
            fprintf(stderr, "no such order: %s\n", order);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        double nanos = run(what, bytes, runs);
        if (rank == 0) {
            printf("@ %.1f\n", nanos);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
