/* The leanest publisher: one PUB outstanding on each connection, as fast as the server answers.

   publish PORT CONNECTIONS THREADS SECONDS TOPIC SIZE [RATE]   prints messages a second

   With a rate each thread waits until the next of its messages is due. */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, SIZE_MAX_BYTES = 65536, OK_BYTES = 10 };

static int port, size, connections;
static double seconds, rate;
static const char *topic;
static long published;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void give_up(const char *what) {
  perror(what);
  exit(1);
}

static int dial(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  int one = 1, link = socket(AF_INET, SOCK_STREAM, 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(link, (struct sockaddr *)&address, sizeof address)) give_up("connect");
  setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (write(link, "  V2", 4) != 4) give_up("write");
  return link;
}

static void *publish(void *unused) {
  static __thread char command[SIZE_MAX_BYTES + 128], answer[4096];
  int count = connections, poller = epoll_create1(0);
  int line = sprintf(command, "PUB %s\n", topic), length = line + 4 + size;
  unsigned bytes = htonl(size);
  struct epoll_event ready[CONNECTIONS_MAX];
  memcpy(command + line, &bytes, 4);
  memset(command + line + 4, 'x', size);
  for (int i = 0; i < count; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = dial()};
    epoll_ctl(poller, EPOLL_CTL_ADD, event.data.fd, &event);
    if (write(event.data.fd, command, length) != length) give_up("write");
  }
  long done = 0;
  double start = now();
  for (double end = start + seconds; now() < end;) {
    int found = epoll_wait(poller, ready, CONNECTIONS_MAX, 1000);
    for (int i = 0; i < found; i++, done++) {
      int link = ready[i].data.fd;
      if (read(link, answer, sizeof answer) != OK_BYTES) give_up("not one OK");
      double early = rate > 0 ? start + done / rate - now() : 0;
      if (early > 0) nanosleep(&(struct timespec){.tv_nsec = early < 1 ? early * 1e9 : 999999999}, 0);
      if (write(link, command, length) != length) give_up("write");
    }
  }
  __sync_fetch_and_add(&published, done);
  return unused;
}

int main(int count, char **words) {
  if (count != 7 && count != 8)
    return fputs("usage: publish PORT CONNECTIONS THREADS SECONDS TOPIC SIZE [RATE]\n", stderr), 2;
  int threads = atoi(words[3]);
  pthread_t thread[16];
  port = atoi(words[1]), seconds = atof(words[4]), topic = words[5], size = atoi(words[6]);
  connections = atoi(words[2]) / threads;
  if (count == 8) rate = atof(words[7]) / threads;
  if (threads > 16 || connections > CONNECTIONS_MAX || size > SIZE_MAX_BYTES) return 2;
  double start = now();
  for (int i = 0; i < threads; i++) pthread_create(thread + i, 0, publish, 0);
  for (int i = 0; i < threads; i++) pthread_join(thread[i], 0);
  printf("%.0f\n", published / (now() - start));
}
