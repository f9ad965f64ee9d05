// The flows with RocketMQ's Go client. What each flow does, and the constants (environment,
// FLOW_...), are those of rocketmq_flow.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	nameServer = os.Args[2]
	name       = os.Args[3]
	many       = number("MANY")
	numbers    = number("NUMBERS")
	queues     = number("QUEUES")
	ctx        = context.Background()
)

func constant(name string) string { return os.Getenv("FLOW_" + name) }

func number(name string) int {
	value, err := strconv.Atoi(constant(name))
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// list is a slice that consumers' goroutines append to.
type list struct {
	mutex  sync.Mutex
	values []string
}

func (l *list) add(value string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.values = append(l.values, value)
}

func (l *list) all() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return append([]string{}, l.values...)
}

func (l *list) sorted() []string {
	values := l.all()
	sort.Strings(values)
	return values
}

// different counts the numbers among the values, each once.
func (l *list) different() map[string]bool {
	found := map[string]bool{}
	for _, value := range l.all() {
		if !strings.HasPrefix(value, "probe") {
			found[value] = true
		}
	}
	return found
}

func until(done func() bool) {
	for !done() {
		time.Sleep(10 * time.Millisecond)
	}
}

type handler func(*primitive.MessageExt) consumer.ConsumeResult

var anything = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}

func resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{nameServer})
}

func openProducer() rocketmq.Producer {
	opened, err := rocketmq.NewProducer(
		producer.WithNsResolver(resolver()), producer.WithGroupName(name),
		producer.WithQueueSelector(chooser{producer.NewRoundRobinQueueSelector()}),
	)
	must(err)
	must(opened.Start())
	return opened
}

// chooser takes the queue that a message's sharding key names, else the next one.
type chooser struct{ other producer.QueueSelector }

func (c chooser) Select(
	message *primitive.Message, queues []*primitive.MessageQueue, last string,
) *primitive.MessageQueue {
	for _, queue := range queues {
		if strconv.Itoa(queue.QueueId) == message.GetShardingKey() {
			return queue
		}
	}
	return c.other.Select(message, queues, last)
}

func consume(
	instance string, selector consumer.MessageSelector, handle handler, more ...consumer.Option,
) rocketmq.PushConsumer {
	options := append([]consumer.Option{
		consumer.WithNsResolver(resolver()), consumer.WithGroupName(name),
		consumer.WithInstance(instance),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, more...)
	opened, err := rocketmq.NewPushConsumer(options...)
	must(err)
	must(opened.Subscribe(name, selector, func(
		_ context.Context, messages ...*primitive.MessageExt,
	) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			if result := handle(message); result != consumer.ConsumeSuccess {
				return result, nil
			}
		}
		return consumer.ConsumeSuccess, nil
	}))
	must(opened.Start())
	return opened
}

func collect(got *list) handler {
	return func(message *primitive.MessageExt) consumer.ConsumeResult {
		got.add(text(message))
		return consumer.ConsumeSuccess
	}
}

func text(message *primitive.MessageExt) string {
	body := string(message.Body)
	if body == constant("LONG_BODY") {
		return "long"
	}
	return body
}

func newMessage(body, tag string) *primitive.Message {
	whole := body
	if body == "long" {
		whole = constant("LONG_BODY")
	}
	message := primitive.NewMessage(name, []byte(whole)).WithTag(tag).WithKeys([]string{"key-" + body})
	message.WithProperty("color", constant("COLOR"))
	return message
}

func send(from rocketmq.Producer, body string) {
	_, err := from.SendSync(ctx, newMessage(body, constant("TAG")))
	must(err)
}

func sendTo(from rocketmq.Producer, body string, queue int) {
	message := newMessage(body, constant("TAG")).WithShardingKey(strconv.Itoa(queue))
	_, err := from.SendSync(ctx, message)
	must(err)
}

func sendNumbers(from rocketmq.Producer, first, end int) {
	for i := first; i < end; i++ {
		sendTo(from, strconv.Itoa(i), i%queues)
	}
}

func playSend() any {
	from := openProducer()
	answered := make(chan error)
	send(from, "sync")
	must(from.SendOneWay(ctx, newMessage("one-way", constant("TAG"))))
	must(from.SendAsync(ctx, func(_ context.Context, _ *primitive.SendResult, err error) {
		answered <- err
	}, newMessage("async", constant("TAG"))))
	must(<-answered)
	sendTo(from, "selected", number("SELECTED_QUEUE"))
	send(from, "long")
	delayed := newMessage("delayed", constant("TAG")).WithDelayTimeLevel(number("DELAY_LEVEL"))
	_, err := from.SendSync(ctx, delayed)
	must(err)
	var mutex sync.Mutex
	got := map[string]any{}
	consume("one", anything, func(message *primitive.MessageExt) consumer.ConsumeResult {
		mutex.Lock()
		defer mutex.Unlock()
		body := text(message)
		got[body] = []string{message.GetTags(), message.GetKeys(), message.GetProperty("color")}
		if body == "selected" {
			got["QUEUE"] = message.Queue.QueueId
		}
		if body == "delayed" {
			got["DELAY"] = message.StoreTimestamp - message.BornTimestamp
		}
		return consumer.ConsumeSuccess
	})
	until(func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return len(got) == 8
	})
	return got
}

func playOrderly() any {
	sendNumbers(openProducer(), 0, numbers)
	var mutex sync.Mutex
	got := map[string][]int{}
	count, refusals := 0, 0
	consume("one", anything, func(message *primitive.MessageExt) consumer.ConsumeResult {
		mutex.Lock()
		defer mutex.Unlock()
		value, err := strconv.Atoi(text(message))
		must(err)
		if value == number("REFUSED") && refusals < 2 {
			refusals++
			return consumer.SuspendCurrentQueueAMoment
		}
		queue := strconv.Itoa(message.Queue.QueueId)
		got[queue] = append(got[queue], value)
		count++
		return consumer.ConsumeSuccess
	}, consumer.WithConsumerOrder(true),
		consumer.WithSuspendCurrentQueueTimeMillis(100*time.Millisecond))
	until(func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return count == numbers
	})
	return got
}

func playFilter() any {
	from, got := openProducer(), &list{}
	consume("one", consumer.MessageSelector{Type: consumer.TAG, Expression: "A || C"}, collect(got))
	for i := 0; i < 2; i++ {
		for _, tag := range []string{"A", "B", "C"} {
			_, err := from.SendSync(ctx, newMessage(fmt.Sprintf("%s-%d", tag, i), tag))
			must(err)
		}
	}
	until(func() bool { return len(got.all()) >= 4 })
	return got.sorted()
}

func playSQL() any {
	from, got := openProducer(), &list{}
	selector := consumer.MessageSelector{Type: consumer.SQL92, Expression: constant("EXPRESSION")}
	consume("one", selector, collect(got))
	for i := 0; i < 6; i++ {
		message := newMessage(strconv.Itoa(i), constant("TAG"))
		message.WithProperty("number", strconv.Itoa(i))
		_, err := from.SendSync(ctx, message)
		must(err)
	}
	until(func() bool { return len(got.all()) >= 3 })
	values := []int{}
	for _, value := range got.sorted() {
		parsed, err := strconv.Atoi(value)
		must(err)
		values = append(values, parsed)
	}
	return values
}

func consumeTwice(more ...consumer.Option) (*list, *list) {
	first, second := &list{}, &list{}
	consume("first", anything, collect(first), more...)
	consume("second", anything, collect(second), more...)
	return first, second
}

func playShare() any {
	from := openProducer()
	first, second := consumeTwice()
	for i := 0; len(first.all()) == 0 || len(second.all()) == 0; i++ {
		send(from, fmt.Sprintf("probe-%d", i)) // until the queues are shared
		time.Sleep(50 * time.Millisecond)
	}
	sendNumbers(from, 0, many)
	until(func() bool {
		all := first.different()
		for value := range second.different() {
			all[value] = true
		}
		return len(all) == many
	})
	one, two := len(first.different()), len(second.different())
	return map[string]int{"first": one, "second": two, "twice": one + two - many}
}

func playBroadcast() any {
	first, second := consumeTwice(consumer.WithConsumerModel(consumer.BroadCasting))
	sendNumbers(openProducer(), 0, numbers)
	until(func() bool {
		return len(first.different()) == numbers && len(second.different()) == numbers
	})
	return map[string]int{"first": len(first.different()), "second": len(second.different())}
}

func playRetry() any {
	deliveries, topics := &list{}, &list{}
	consume("one", anything, func(message *primitive.MessageExt) consumer.ConsumeResult {
		deliveries.add(text(message))
		topics.add(message.Topic)
		return consumer.ConsumeRetryLater
	}, consumer.WithMaxReconsumeTimes(int32(number("RETRIES"))))
	send(openProducer(), "refused")
	until(func() bool { return len(deliveries.all()) > number("RETRIES") })
	time.Sleep(300 * time.Millisecond) // the last refusal leaves
	return map[string]int{"deliveries": len(deliveries.all()), "topics": len(topics.different())}
}

func playResume() any {
	from, result := openProducer(), map[string][]int{}
	for i, who := range []string{"first", "second"} {
		sendNumbers(from, 10*i, 10*i+10)
		got := &list{}
		opened := consume(who, anything, collect(got))
		until(func() bool { return len(got.all()) >= 10 })
		time.Sleep(100 * time.Millisecond) // it notes its offset after the message
		must(opened.Shutdown())
		for _, value := range got.all() {
			parsed, err := strconv.Atoi(value)
			must(err)
			result[who] = append(result[who], parsed)
		}
		sort.Ints(result[who])
	}
	return result
}

// listener decides by the last word of a body, when asked; at first by the whole.
type listener struct{ asked *list }

var states = map[string]primitive.LocalTransactionState{
	"commit": primitive.CommitMessageState, "rollback": primitive.RollbackMessageState,
}

func stateOf(word string) primitive.LocalTransactionState {
	if state, known := states[word]; known {
		return state
	}
	return primitive.UnknowState
}

func (l listener) ExecuteLocalTransaction(
	message *primitive.Message,
) primitive.LocalTransactionState {
	return stateOf(string(message.Body))
}

func (l listener) CheckLocalTransaction(
	message *primitive.MessageExt,
) primitive.LocalTransactionState {
	body := text(message)
	isAgain := l.asked.different()[body]
	l.asked.add(body)
	if body == "unknown-unknown-commit" && !isAgain {
		return primitive.UnknowState
	}
	return stateOf(body[strings.LastIndex(body, "-")+1:])
}

func playTransaction() any {
	got, asked := &list{}, &list{}
	transactional, err := rocketmq.NewTransactionProducer(
		listener{asked}, producer.WithNsResolver(resolver()), producer.WithGroupName(name+"-tx"),
		producer.WithInstanceName("transactional"),
	)
	must(err)
	must(transactional.Start())
	consume("one", anything, collect(got))
	bodies := []string{"commit", "rollback", "unknown-commit", "unknown-rollback",
		"unknown-unknown-commit"}
	for _, body := range bodies {
		_, err := transactional.SendMessageInTransaction(ctx, newMessage(body, constant("TAG")))
		must(err)
	}
	until(func() bool { return len(got.different()) == 3 && len(asked.different()) == 3 })
	questions := []string{}
	for body := range asked.different() {
		questions = append(questions, body)
	}
	sort.Strings(questions)
	return map[string][]string{"got": got.sorted(), "asked": questions}
}

func playRestart(server string) any {
	from, acknowledged, got := openProducer(), &list{}, &list{}
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for i := 0; ; {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			message := newMessage(strconv.Itoa(i), constant("TAG"))
			if _, err := from.SendSync(ctx, message); err == nil {
				acknowledged.add(strconv.Itoa(i))
				i++
			}
		}
	}()
	consume("one", anything, collect(got))
	until(func() bool { return len(got.different()) > 20 })
	fmt.Println("RESTART", server)
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	must(err)
	before := len(acknowledged.all())
	until(func() bool { return len(got.different()) > before+20 })
	close(stop)
	<-stopped
	seconds, err := strconv.ParseFloat(constant("LOST_AFTER_S"), 64)
	must(err)
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	lost := func() (count int) {
		consumed := got.different()
		for _, body := range acknowledged.all() {
			if !consumed[body] {
				count++
			}
		}
		return
	}
	until(func() bool { return lost() == 0 || time.Now().After(end) })
	return map[string]any{"lost": lost(), "went on": len(acknowledged.all()) > before}
}

func playCreate() any {
	name += "-new"
	got := &list{}
	send(openProducer(), "created")
	consume("one", anything, collect(got))
	until(func() bool { return len(got.all()) > 0 })
	return got.all()[0] == "created"
}

func main() {
	rlog.SetLogLevel("fatal")
	plays := map[string]func() any{
		"send": playSend, "orderly": playOrderly, "filter": playFilter, "sql": playSQL,
		"share": playShare, "broadcast": playBroadcast, "retry": playRetry, "resume": playResume,
		"transaction": playTransaction, "create": playCreate,
		"broker":  func() any { return playRestart("broker") },
		"namesrv": func() any { return playRestart("namesrv") },
	}
	result, err := json.Marshal(plays[os.Args[1]]())
	must(err)
	fmt.Println("RESULT", string(result))
}
