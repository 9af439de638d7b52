package standard

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/caddy-gw/gateway/guardrails"
)

// judgedTexts are texts with what is right about them: of gw.language the code of the language, of
// the others whether the check objects to them.
var injectionTexts = func() map[bool][]string {
	var texts struct{ Injections, Others []string }
	raw, err := os.ReadFile("../testdata/injections.json")
	if err == nil {
		err = json.Unmarshal(raw, &texts)
	}
	if err != nil {
		panic(err)
	}
	return map[bool][]string{true: texts.Injections, false: texts.Others}
}()

var gibberishTexts = map[bool][]string{
	true: {
		"asdfghjkl asdfghjkl", "qwlekjr zxmcnbv laksjdf", "fjdkslafjdksl hgjdkfhgjdk", "xkcdvbnm wqzxrt plmkjn", "sdfkjhsdkjfh ksjdhfkjsdhf", "lkjhgfdsa mnbvcxz", "dfgdfgdfg hjkhjkhjk", "zzxxccvvbb nnmmkkjj", "jkdfhg kjdfhgkj dfhgkjdfhg",
		"bvcxznm ytrewq hgfdsa", "wkjehr wkjehrkj whekrjh", "aaaaaaaaaaaaaa", "hahahhhhhhhhhhh nnnnnnnn", "xqzjv kwpfq vbgtz hjxqk", "pqowieur zmxncbv alskdjfh", "gfdgfdgdf fdgfdgdf gfdgdfg", "tyghbn ujmikl rfvtgb edcwsx", "qazwsx edcrfv tgbyhn",
		"kshdfkj shdfkjh sdkjfhskdjf hskdjfh", "mxnzbcv qpwoeiruty",
		// Made of pairs that words have.
		"erteriop andoter inalesto", "qwertyuiop qwertyuiop",
	},
	false: {
		"The quick brown fox jumps over the lazy dog.", "Please summarize this article for me.", "How do I configure nginx as a reverse proxy for my application?", "Pixel art with oxygen bubbles", "Psychology and rhythm are hard to spell.",
		"kubectl get pods and describe deployments", "Bitte fasse den folgenden Text zusammen.", "Die Schwarzwälder Kirschtorte schmeckt vorzüglich.", "Quelle est la capitale de la France ?", "¿Dónde está la biblioteca municipal?", "Onde fica a estação de comboios?",
		"Vorrei prenotare un tavolo per due persone.", "Kan je me helpen met mijn huiswerk?", "Jag skulle vilja boka ett rum.", "Chciałbym zamówić kawę z mlekiem.", "Dobrý den, kolik to stojí prosím?", "Yarın hava nasıl olacak acaba?", "Saya ingin belajar bahasa Indonesia.",
		"Hyvää huomenta, mitä kuuluu tänään?", "Szeretnék egy kávét kérni.", "Привет, как дела сегодня?", "今日はいい天気ですね。", "func main() { fmt.Println(\"hello\") }", "SELECT name FROM users WHERE id = 4", "TLS, HTTP and JSON over QUIC", "the commit 16c7e42f292c6912e7710c83",
		"Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz", "Awkward maximum effort explained", "Ok, thx!", "https://example.com/xkq/zzvv?q=jxqz", "Lorem ipsum dolor sit amet, consectetur adipiscing elit.", "Xylophone jazz quiz tonight",
		"Zażółć gęślą jaźń", "Llanfairpwllgwyngyll is a village in Wales.",
	},
}

var languageTexts = map[string][]string{
	"eng_Latn": {"I would like to book a table for two people tomorrow evening.", "The weather has been quite nice during the last few days."},
	"deu_Latn": {"Ich möchte für morgen Abend einen Tisch für zwei Personen reservieren.", "Das Wetter war in den letzten Tagen ziemlich schön."},
	"fra_Latn": {"Je voudrais réserver une table pour deux personnes demain soir.", "Il a fait très beau pendant les derniers jours."},
	"spa_Latn": {"Quisiera reservar una mesa para dos personas mañana por la noche.", "El tiempo ha sido muy bueno durante los últimos días."},
	"por_Latn": {"Gostaria de reservar uma mesa para duas pessoas amanhã à noite.", "O tempo esteve muito bom durante os últimos dias."},
	"ita_Latn": {"Vorrei prenotare un tavolo per due persone domani sera.", "Il tempo è stato molto bello negli ultimi giorni."},
	"nld_Latn": {"Ik wil graag een tafel reserveren voor twee personen morgenavond.", "Het weer was de afgelopen dagen erg mooi."},
	"swe_Latn": {"Jag skulle vilja boka ett bord för två personer i morgon kväll.", "Vädret har varit mycket fint de senaste dagarna."},
	"dan_Latn": {"Jeg vil gerne bestille et bord til to personer i morgen aften.", "Vejret har været meget flot de seneste dage."},
	"nor_Latn": {"Jeg vil gjerne bestille et bord for to personer i morgen kveld.", "Været har vært veldig fint de siste dagene."},
	"pol_Latn": {"Chciałbym zarezerwować stolik dla dwóch osób na jutro wieczorem.", "Pogoda była bardzo ładna w ciągu ostatnich kilku dni."},
	"ces_Latn": {"Chtěl bych si rezervovat stůl pro dvě osoby na zítra večer.", "Počasí bylo v posledních dnech velmi pěkné."},
	"tur_Latn": {"Yarın akşam için iki kişilik bir masa ayırtmak istiyorum.", "Son birkaç gündür hava çok güzeldi."},
	"ind_Latn": {"Saya ingin memesan meja untuk dua orang besok malam.", "Cuaca sangat bagus selama beberapa hari terakhir."},
	"vie_Latn": {"Tôi muốn đặt bàn cho hai người vào tối mai.", "Thời tiết rất đẹp trong những ngày vừa qua."},
	"fin_Latn": {"Haluaisin varata pöydän kahdelle hengelle huomisillaksi.", "Sää on ollut erittäin kaunis viime päivinä."},
	"hun_Latn": {"Szeretnék asztalt foglalni két személyre holnap estére.", "Az időjárás nagyon szép volt az elmúlt napokban."},
	"ron_Latn": {"Aș dori să rezerv o masă pentru două persoane mâine seară.", "Vremea a fost foarte frumoasă în ultimele zile."},
	"rus_Cyrl": {"Я хотел бы забронировать столик на двоих завтра вечером.", "Погода была очень хорошей в последние дни."},
	"ukr_Cyrl": {"Я хотів би забронювати столик на двох завтра ввечері.", "Погода була дуже гарною протягом останніх днів."},
	"bul_Cyrl": {"Бих искал да запазя маса за двама души утре вечер.", "Времето беше много хубаво през последните дни."},
	"ell_Grek": {"Θα ήθελα να κλείσω ένα τραπέζι για δύο άτομα αύριο το βράδυ.", "Ο καιρός ήταν πολύ καλός τις τελευταίες μέρες."},
	"heb_Hebr": {"אני רוצה להזמין שולחן לשני אנשים מחר בערב.", "מזג האוויר היה יפה מאוד בימים האחרונים."},
	"ara_Arab": {"أود أن أحجز طاولة لشخصين مساء الغد.", "كان الطقس جميلا جدا خلال الأيام القليلة الماضية."},
	"pes_Arab": {"می\u200cخواهم برای فردا شب یک میز دو نفره رزرو کنم.", "هوا در چند روز گذشته بسیار خوب بوده است."},
	"hin_Deva": {"मैं कल शाम के लिए दो लोगों की मेज़ आरक्षित करना चाहता हूँ।", "पिछले कुछ दिनों में मौसम बहुत अच्छा रहा है।"},
	"ben_Beng": {"আমি আগামীকাল সন্ধ্যায় দুজনের জন্য একটি টেবিল বুক করতে চাই।", "গত কয়েক দিন আবহাওয়া খুব ভালো ছিল।"},
	"tam_Taml": {"நாளை மாலை இருவருக்கு ஒரு மேசையை முன்பதிவு செய்ய விரும்புகிறேன்.", "கடந்த சில நாட்களாக வானிலை மிகவும் நன்றாக இருந்தது."},
	"tha_Thai": {"ฉันต้องการจองโต๊ะสำหรับสองคนในเย็นวันพรุ่งนี้", "อากาศดีมากในช่วงไม่กี่วันที่ผ่านมา"},
	"kor_Hang": {"내일 저녁 두 명 자리를 예약하고 싶습니다.", "지난 며칠 동안 날씨가 아주 좋았습니다."},
	"jpn_Jpan": {"明日の夜に二人分のテーブルを予約したいのですが。", "ここ数日は天気がとても良かったです。"},
	"zho_Hans": {"我想预订明天晚上两个人的桌子。", "最近几天天气非常好。"},
}

// verdict is that of a check about a text.
func verdict(t *testing.T, id, parameters, text string) bool {
	t.Helper()
	check, err := guardrails.Lookup(id).Make(json.RawMessage(parameters))
	if err != nil {
		t.Fatal(err)
	}
	result, err := check.Judge(t.Context(), &guardrails.Subject{Texts: []string{text}})
	if err != nil {
		t.Fatal(err)
	}
	return result.Verdict
}

// Precision and recall, which the documentation states.
func TestTextsAreClassified(t *testing.T) {
	for id, c := range map[string]struct {
		texts             map[bool][]string
		precision, recall float64 // at least
	}{
		"gw.promptInjection": {injectionTexts, 0.9, 0.9}, "gw.gibberish": {gibberishTexts, 0.9, 0.9},
	} {
		right, wrong, missed := 0, 0, 0
		for object, texts := range c.texts {
			for _, text := range texts {
				switch objects := !verdict(t, id, `{}`, text); {
				case objects && object:
					right++
				case objects:
					wrong++
					t.Logf("%s objects to %q", id, text)
				case object:
					missed++
					t.Logf("%s lets pass %q", id, text)
				}
			}
		}
		precision, recall := float64(right)/float64(right+wrong), float64(right)/float64(right+missed)
		t.Logf("%s: precision %.3f, recall %.3f of %d in %d texts", id, precision, recall, right+missed, len(c.texts[true])+len(c.texts[false]))
		if precision < c.precision || recall < c.recall {
			t.Errorf("%s: precision %.3f, recall %.3f", id, precision, recall)
		}
	}
}

func TestLanguagesAreRecognised(t *testing.T) {
	right, wrong, texts := 0, 0, 0
	refused, passed := 0, 0 // where one language is allowed
	for code, list := range languageTexts {
		for _, text := range list {
			texts++
			if verdict(t, "gw.language", `{"language":"`+code+`","not":true}`, text) {
				t.Logf("%q is not recognised as %s", text, code)
			} else {
				right++
			}
			for other := range languageTexts {
				if other != code && !verdict(t, "gw.language", `{"language":"`+other+`","not":true}`, text) {
					wrong++
					t.Logf("%q is taken for %s", text, other)
				}
			}
			if !verdict(t, "gw.language", `{"language":"`+code+`"}`, text) {
				refused++
				t.Logf("%q is refused where %s is allowed", text, code)
			}
			if code != "eng_Latn" && verdict(t, "gw.language", `{"language":"eng_Latn"}`, text) {
				passed++
				t.Logf("%q passes where English is allowed", text)
			}
		}
	}
	precision, recall := float64(right)/float64(right+wrong), float64(right)/float64(texts)
	t.Logf("gw.language: precision %.3f, recall %.3f of %d texts in %d languages", precision, recall, texts, len(languageTexts))
	t.Logf("where one language is allowed: %d texts in it are refused, and %d in others pass", refused, passed)
	if precision < 0.9 || recall < 0.9 || refused > 1 || passed > 8 {
		t.Errorf("gw.language: precision %.3f, recall %.3f; %d refused, %d passed", precision, recall, refused, passed)
	}
}
